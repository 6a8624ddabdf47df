// Package process runs commands with given standard streams and reports how
// they ended.
//
// It knows nothing of confinement. What starts a command is a [Spawner]: the
// cell of package confine in production, a plain fork and exec in the tests. The
// smallest use:
//
//	res, err := process.Run(ctx, cell, process.Command{
//		Argv: []string{"make", "test"}, Dir: "/workspace", Env: env, Timeout: time.Minute,
//	})
//
// Run owns every pipe and goroutine that it makes: when it returns, none is
// left, whether the command ended by itself, ran out of time or was cancelled.
// Output read until then is in the Result, also together with an error.
//
// A [Set] is for commands that outlive a call: many side by side, each with an id,
// an output log on disk that readers follow (package outlog), perhaps a terminal,
// input while it runs, and an end that says how it came:
//
//	p, err := set.Start(ctx, process.Command{Shell: "npm run dev", TTY: &process.Winsize{Rows: 24, Cols: 80}})
//	log, err := p.Output()
//	_, err = p.Write(ctx, []byte("\x03"))
//	exit, err := p.Wait(ctx)
//
// Set.Close leaves no goroutine, pipe, terminal or command of the set; the logs stay.
package process
