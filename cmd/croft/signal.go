package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels,
// with a *signalError as its cause. What runs is then ended and cleaned up. A second
// such signal finds its default action again and ends croft at once; the session's
// janitor still ends its processes, and the next croft removes its workspace.
//
// stop gives the signals back and waits for the goroutine.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		// Asking for an ignored signal would bring it back: `nohup croft run` and
		// `croft run &` in a script must stay deaf to it.
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-got:
			signal.Stop(got)
			sig, _ := s.(syscall.Signal) // as on every Unix
			cancel(&signalError{sig})
		case <-done:
		}
	})
	return ctx, func() {
		signal.Stop(got)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}
