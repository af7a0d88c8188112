package boot

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals returns a context that ends at the first SIGTERM or SIGINT, which
// asks for a clean stop. The second one ends the process at once, with the
// status that a shell gives to one killed so (128 and the number). release ends
// the watch.
func Signals(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case sig := <-signals:
				if number, ok := sig.(syscall.Signal); ok && !first {
					os.Exit(128 + int(number))
				}
				cancel()
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
