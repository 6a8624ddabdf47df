package fill

import (
	"sync"
	"sync/atomic"

	"github.com/croftdev/croft/internal/tree"
)

// progress adds up what several workers do.
type progress struct {
	entries, bytes, expected atomic.Int64
	report                   func(tree.Progress)
	mu                       sync.Mutex
}

func (p *progress) expect(bytes int64) { p.expected.Add(bytes) }

func (p *progress) add(entries, bytes int64) {
	p.entries.Add(entries)
	p.bytes.Add(bytes)
	p.tell()
}

func (p *progress) set(entries, bytes int64) {
	p.entries.Store(entries)
	p.bytes.Store(bytes)
	p.tell()
}

func (p *progress) value() tree.Progress {
	return tree.Progress{Entries: p.entries.Load(), Bytes: p.bytes.Load(), Total: p.expected.Load()}
}

// tell reports unless another worker does so just now.
func (p *progress) tell() {
	if p.report != nil && p.mu.TryLock() {
		p.report(p.value())
		p.mu.Unlock()
	}
}

func (p *progress) final() {
	if p.report != nil {
		p.mu.Lock()
		p.report(p.value())
		p.mu.Unlock()
	}
}
