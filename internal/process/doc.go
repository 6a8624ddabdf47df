// Package process runs one command with given standard streams and reports how
// it ended.
//
// It knows nothing of confinement. What starts the command is a [Spawner]: the
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
// What it does not do: terminals, many commands side by side under one name,
// and durable output logs come with interactive processes.
package process
