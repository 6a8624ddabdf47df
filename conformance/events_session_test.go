package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// audited is a session whose events are looked at, from a moment on.
type audited struct {
	*croft.Session
	client *croft.Client

	mu      sync.Mutex
	on      bool
	records []event.Record
	fail    event.Phase // records of this phase are refused
}

// see is the callback of a collecting sink.
func (a *audited) see(_ context.Context, r event.Record, _ event.Workspace) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on {
		return nil
	}
	a.records = append(a.records, r)
	if r.Phase == a.fail {
		return errSink
	}
	return nil
}

func (a *audited) collect(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = on
}

func (a *audited) seen() []event.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]event.Record(nil), a.records...)
}

// phases returns the phases of the records seen.
func (a *audited) phases() []event.Phase {
	out := []event.Phase{}
	for _, r := range a.seen() {
		out = append(out, r.Phase)
	}
	return out
}

// newAudited makes a session at ${ROOT}. Its events go to a collecting sink with the
// given delivery; how commands are confined is not what these cases are about.
func newAudited(e *env, cfg croft.Config, d event.Delivery, ports []int) *audited {
	a := &audited{}
	cfg.Dir = filepath.Join(e.tmp, "croft")
	cfg.NoEventLog = true
	cfg.Sinks = append(cfg.Sinks, event.Callback(a.see, d))
	var err error
	a.client, err = croft.Open(cfg)
	e.check(err)
	e.cleanup(func() { e.check(a.client.Close()) })
	a.Session, err = a.client.Create(e.ctx, croft.CreateOptions{
		Root: e.root, AllowHome: true, ExposedPorts: ports,
		Policy: &policy.Policy{Tier: policy.None, Floor: policy.None, Network: policy.NetworkHost},
	})
	e.check(err)
	return a
}

// payload reads a policy as cases write it.
func payload(f *fields) (p event.Policy) {
	if f == nil {
		return p
	}
	f.decode("include_exec_output", &p.IncludeExecOutput)
	f.decode("include_write_len", &p.IncludeWriteLen)
	f.decode("max_stdout_chars", &p.MaxStdoutChars)
	f.decode("max_stderr_chars", &p.MaxStderrChars)
	return p
}

// operation is one call of events_of.
type operation struct {
	needsStart bool
	run        func(e *env, a *audited) error
}

func runEventsOf(e *env, op *fields) (outcome, error) {
	cfg := croft.Config{Payload: payload(op.object("policy")), PayloadByOp: map[event.Op]event.Policy{}}
	if byOp := op.object("policy_by_op"); byOp != nil {
		for name := range byOp.vals {
			cfg.PayloadByOp[event.Op(name)] = payload(byOp.object(name))
		}
	}
	d := event.Delivery{Policy: payload(op.object("sink_policy"))}
	var ops []operation
	var ports []int
	starts, started := false, false
	for _, f := range op.objects("operations") {
		o := readOperation(e, f, &ports)
		starts = starts || o.needsStart && !started
		started = started || f.str("call") == "start"
		ops = append(ops, o)
	}
	a := newAudited(e, cfg, d, ports)
	if starts {
		e.check(a.Start(e.ctx))
	}
	a.collect(true)
	results := []any{}
	for _, o := range ops {
		var result any = "ok"
		if err := o.run(e, a); err != nil {
			result = map[string]any{"error": fault.CodeOf(err)}
		}
		results = append(results, result)
	}
	a.collect(false)
	records := a.seen()
	return outcome{"results": results, "events": asEvents(e, records), "phases_of_each": phasesOfEach(e, records, len(ops))}, nil
}

// phasesOfEach returns the phases of the records of each operation, which must be
// the same for all of them.
func phasesOfEach(e *env, records []event.Record, operations int) any {
	bySpan := map[string][]event.Phase{}
	for _, r := range records {
		bySpan[r.SpanID] = append(bySpan[r.SpanID], r.Phase)
	}
	if len(bySpan) != operations {
		return fmt.Sprintf("%d spans for %d operations", len(bySpan), operations)
	}
	var all []event.Phase
	for _, phases := range bySpan {
		if all != nil && fmt.Sprint(all) != fmt.Sprint(phases) {
			return fmt.Sprintf("not the same for each: %v", bySpan)
		}
		all = phases
	}
	return all
}

func readOperation(e *env, f *fields, ports *[]int) operation {
	path := func(otherwise string) string {
		if p, ok := f.optStr("path"); ok {
			return p
		}
		return otherwise
	}
	file := func(run func(e *env, a *audited) error) operation { return operation{true, run} }
	life := func(run func(a *audited, ctx context.Context) error) operation {
		return operation{false, func(e *env, a *audited) error { return run(a, e.ctx) }}
	}
	switch call := f.str("call"); call {
	case "write":
		name, text := f.str("path"), f.str("text")
		user, _ := f.optStr("user")
		return file(func(e *env, a *audited) error {
			_, err := a.WriteFile(e.ctx, name, strings.NewReader(text), croft.WriteOptions{User: user})
			return err
		})
	case "read":
		name := f.str("path")
		user, _ := f.optStr("user")
		return file(func(e *env, a *audited) error {
			_, err := a.ReadFile(e.ctx, name, croft.ReadOptions{User: user})
			return err
		})
	case "exec":
		cmd := readCommand(e, f)
		return file(func(e *env, a *audited) error { _, err := a.Exec(e.ctx, cmd); return err })
	case "ls":
		name := path(".")
		return file(func(e *env, a *audited) error { _, err := a.List(e.ctx, name, croft.ReadOptions{}); return err })
	case "mkdir":
		name := path("new-directory")
		return file(func(e *env, a *audited) error { return a.Mkdir(e.ctx, name, croft.MkdirOptions{Parents: true}) })
	case "rm":
		name := path("new-directory")
		return file(func(e *env, a *audited) error { return a.Remove(e.ctx, name, croft.RemoveOptions{Recursive: true}) })
	case "pty":
		return file(runOnTerminal)
	case "persist_workspace":
		return file(persistToFile)
	case "hydrate_workspace":
		return file(func(e *env, a *audited) error {
			_, err := a.Hydrate(e.ctx, bytes.NewReader(emptyTar))
			return err
		})
	case "resolve_exposed_port":
		port := f.num("port")
		*ports = append(*ports, port)
		return operation{false, func(e *env, a *audited) error { _, err := a.ExposedPort(e.ctx, port); return err }}
	case "running":
		return life(func(a *audited, ctx context.Context) error { _, err := a.Alive(ctx); return err })
	case "start":
		return life(func(a *audited, ctx context.Context) error { return a.Start(ctx) })
	case "stop":
		return life(func(a *audited, ctx context.Context) error { return a.Stop(ctx) })
	case "shutdown":
		return life(func(a *audited, ctx context.Context) error { return a.Shutdown(ctx) })
	default:
		e.fatalf("%s.call: the runner does not know %q", f.at, call)
		return operation{}
	}
}

// emptyTar is an archive without members: two blocks of zeroes.
var emptyTar = make([]byte, 1024)

// readCommand reads a command: a text is for a shell, a list is run as it is.
func readCommand(e *env, f *fields) croft.Command {
	var cmd croft.Command
	switch c := f.value("cmd").(type) {
	case string:
		cmd.Shell = c
	case []any:
		for _, w := range c {
			cmd.Argv = append(cmd.Argv, fmt.Sprint(w))
		}
	default:
		e.fatalf("%s.cmd: neither a text nor a list", f.at)
	}
	if f.has("timeout_s") && !f.null("timeout_s") {
		var s float64
		f.decode("timeout_s", &s)
		cmd.Timeout = time.Duration(s * float64(time.Second))
	} else {
		f.value("timeout_s")
	}
	return cmd
}

// persistToFile saves into ${TMP}/snap.tar.
func persistToFile(e *env, a *audited) error {
	f, err := os.Create(filepath.Join(e.tmp, "snap.tar"))
	e.check(err)
	_, err = a.Persist(e.ctx, f)
	return errors.Join(err, f.Close())
}

// runOnTerminal runs a command whose standard streams are a terminal.
func runOnTerminal(e *env, a *audited) error {
	control, tty, err := pty.Open()
	if err != nil {
		e.skipf("needs a terminal: %v", err)
	}
	defer control.Close()
	var read sync.WaitGroup
	read.Go(func() { _, _ = io.Copy(io.Discard, control) }) // ends with an error when the last holder of tty is gone
	_, err = a.Exec(e.ctx, croft.Command{Argv: []string{"test", "-t", "0"}, Files: [3]*os.File{tty, tty, tty}})
	e.check(tty.Close())
	read.Wait()
	return err
}

// runSinkFailureEffect writes a file while a sink refuses records of one phase.
func runSinkFailureEffect(e *env, op *fields) (outcome, error) {
	a := newAudited(e, croft.Config{}, event.Delivery{Mode: event.Sync, OnError: event.Raise}, nil)
	e.check(a.Start(e.ctx))
	a.fail = event.Phase(op.str("phase"))
	a.collect(true)
	_, err := a.WriteFile(e.ctx, "x.txt", strings.NewReader("hello"), croft.WriteOptions{})
	a.collect(false)
	_, statErr := os.Lstat(filepath.Join(e.root, "x.txt"))
	return outcome{"operation_ran": statErr == nil, "caller_sees": emitted(err)}, nil
}

// runFlushOnClose holds deliveries back until a Close that fails waits for them.
func runFlushOnClose(e *env, _ *fields) (outcome, error) {
	release := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	delivered := map[uint64]bool{}
	slow := event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
		<-release
		mu.Lock()
		defer mu.Unlock()
		delivered[r.Seq] = true
		return nil
	}, event.Delivery{Mode: event.BestEffort})
	errStep := errors.New("this step fails, as the case wants")
	a := newAudited(e, croft.Config{Sinks: []event.Sink{slow}, OnStep: func(_ context.Context, _ string, s croft.Step) error {
		switch s {
		case croft.StepPersistSnapshot:
			return errStep
		case croft.StepFlushEvents:
			once.Do(func() { close(release) })
		}
		return nil
	}}, event.Delivery{}, nil)
	e.cleanup(func() { once.Do(func() { close(release) }) })
	a.collect(true)
	e.check(a.Start(e.ctx))
	if err := a.Close(e.ctx); !errors.Is(err, errStep) {
		e.fatalf("Close = %v, want the error of a step", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, r := range a.seen() {
		if !delivered[r.Seq] {
			return nil, &fault.Error{Code: fault.EventSinkError, Message: fmt.Sprintf("record %d (%s %s) was not delivered when Close returned", r.Seq, r.Op, r.Phase)}
		}
	}
	return nil, nil
}

// runCancelledOperation cancels a command once it has written something.
func runCancelledOperation(e *env, _ *fields) (outcome, error) {
	a := newAudited(e, croft.Config{}, event.Delivery{}, nil)
	e.check(a.Start(e.ctx))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	a.collect(true)
	_, err := a.Exec(ctx, croft.Command{Shell: "echo up; sleep 600", Stdout: writeFunc(func() { cancel() })})
	a.collect(false)
	if !errors.Is(err, context.Canceled) {
		e.fatalf("the cancelled command ended with %v", err)
	}
	return outcome{"phases": a.phases()}, nil
}

// writeFunc is called with each write.
type writeFunc func()

func (f writeFunc) Write(p []byte) (int, error) { f(); return len(p), nil }
