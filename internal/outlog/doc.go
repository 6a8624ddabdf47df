// Package outlog keeps the output of one command on disk: bounded, in the order
// in which it came, and readable by any number of readers while it grows and after
// the program that wrote it has ended or was killed.
//
//	l, err := outlog.Create(dir, "1000", outlog.Options{})
//	err = l.Append(outlog.Stdout, p)
//	r, err := l.Reader(0)            // from any cursor, as often as wanted
//	piece, err := r.Next(ctx, 4096)  // waits for more; io.EOF after End
//	err = l.End(result)
//
// A cursor counts the bytes of all streams together, also those that were dropped,
// so it stays valid for as long as the log exists. A log has a limit: its start is
// kept, and of the rest the last part, in segments that are removed one by one. What is
// no longer there a reader tells as a gap with its size, never silently.
//
// The files are described in doc/state.md. Nothing is synced: output survives a
// killed process, and what was written in the last seconds before a loss of power
// may be gone. The package trusts the directory and knows nothing of processes.
package outlog
