package boot

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Signals returns a context that ends at the first SIGTERM or SIGINT, which
// asks for a clean stop. Another one ends the process at once, with the status
// that a shell gives to one killed so (128 and the number), if it comes a second
// later or more: timeout(1) and some supervisors signal the process and then its
// group, which is one request. release ends the watch.
func Signals(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case sig := <-signals:
				if first.IsZero() {
					first = time.Now()
					cancel()
				}
				if number, ok := sig.(syscall.Signal); ok && time.Since(first) >= time.Second {
					os.Exit(128 + int(number))
				}
			case <-done:
				return
			}
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(done)
			cancel()
		})
	}
}
