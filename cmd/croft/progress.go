package main

import (
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/croftdev/croft"
)

// progressDelay keeps short work from flashing a bar.
const progressDelay = 400 * time.Millisecond

// progress shows on a terminal how far the work on a large tree has come, one bar
// at a time, and leaves nothing behind. On anything else it shows nothing.
type progress struct {
	out   *os.File // nil: show nothing
	delay time.Duration

	mu      sync.Mutex
	stopped bool
	op      string
	since   time.Time // when op began
	bars    *mpb.Progress
	bar     *mpb.Bar
}

func newProgress(stderr *os.File) *progress {
	if !term.IsTerminal(int(stderr.Fd())) {
		return &progress{}
	}
	return &progress{out: stderr, delay: progressDelay}
}

// callback returns what the library is to tell its progress to: nil if nobody sees
// it, since finding out how much there is to copy costs a walk.
func (p *progress) callback() func(croft.Progress) {
	if p.out == nil {
		return nil
	}
	return p.update
}

// update takes the library's word. It is called from the goroutines that do the
// work and only notes numbers; the drawing has its own pace.
func (p *progress) update(u croft.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if u.Op != p.op {
		p.clear()
		p.op, p.since = u.Op, time.Now()
	}
	if p.bar == nil {
		if time.Since(p.since) < p.delay {
			return
		}
		p.bars = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(48), mpb.WithAutoRefresh())
		p.bar = p.bars.AddBar(0,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(progressName(u.Op), decor.WCSyncSpaceR), decor.CountersKibiByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.Percentage()),
		)
	}
	p.bar.SetTotal(max(u.Total, u.Bytes+1), false)
	p.bar.SetCurrent(u.Bytes)
}

// progressName says what the library's operation is to a user.
func progressName(op string) string {
	switch op {
	case "fill":
		return "filling the workspace"
	case "persist":
		return "saving the workspace"
	case "restore":
		return "restoring the workspace"
	case "remove":
		return "removing the workspace"
	default:
		return op
	}
}

// stop takes the bar away and shows none from here on.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.clear()
}

func (p *progress) clear() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bar, p.bars = nil, nil
}
