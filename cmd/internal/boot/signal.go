package boot

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Signals returns a context that ends at the first SIGTERM or SIGINT, which
// asks for a clean stop. Another one ends the process at once, with the status
// that a shell gives to one killed so (128 and the number), if it comes a second
// later or more: timeout(1) and some supervisors signal the process and then its
// group, which is one request. The signals stay caught until the process ends,
// so that the second does not turn a clean end into a kill at the last moment.
func Signals(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		var first time.Time
		for sig := range signals {
			if first.IsZero() {
				first = time.Now()
				cancel()
			}
			if number, ok := sig.(syscall.Signal); ok && time.Since(first) >= time.Second {
				os.Exit(128 + int(number))
			}
		}
	}()
	return ctx
}
