package tree

import (
	"sync"
	"sync/atomic"
	"time"
)

// progress counts and, not more often than every 50 ms, tells the caller.
type progress struct {
	entries, bytes atomic.Int64
	report         func(Progress)
	mu             sync.Mutex
	last           time.Time
}

const progressEvery = 50 * time.Millisecond

func (p *progress) add(entries, bytes int64) {
	n := p.entries.Add(entries)
	p.bytes.Add(bytes)
	if p.report == nil || (bytes < 1<<20 && n%64 != 0) {
		return
	}
	if !p.mu.TryLock() {
		return
	}
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		p.report(p.value())
	}
	p.mu.Unlock()
}

func (p *progress) value() Progress {
	return Progress{Entries: p.entries.Load(), Bytes: p.bytes.Load()}
}

func (p *progress) final() {
	if p.report != nil {
		p.mu.Lock()
		p.report(p.value())
		p.mu.Unlock()
	}
}
