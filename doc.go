// Package croft gives an AI agent a workspace on a Unix machine: a directory that
// is filled from a manifest, in which commands run confined and files are read,
// written and removed safely, whose state is saved and resumed, and which is
// deleted without a trace. It needs no daemon, container engine or root.
//
// A program calls [Init] first in main, opens a [Client], creates a [Session],
// and uses it:
//
//	func main() {
//		croft.Init()
//		c, err := croft.Open(croft.Config{})
//		...
//		defer c.Close()
//		s, err := c.Create(ctx, croft.CreateOptions{})
//		err = s.Start(ctx)
//		res, err := s.Exec(ctx, croft.Command{Shell: "make test", Timeout: time.Minute})
//		err = s.WriteFile(ctx, "notes.md", strings.NewReader("hi"), croft.WriteOptions{})
//		err = s.Close(ctx)
//		s, err = c.Resume(ctx, s.ID())
//		err = c.Delete(ctx, s.ID())
//	}
//
// Three rules hold everywhere. A name is opened, never checked and opened again,
// so that a process in the workspace cannot redirect an operation by swapping a
// link in between. What cannot be enforced is an error, never a weaker run; what
// was enforced stands in the session's [policy.Receipt]. A cancelled call returns
// when nothing of it touches the workspace any more, and loses neither the work
// nor the state from which it resumes.
//
// The package does not isolate against bugs in the kernel; see doc/threat-model.md
// for what is defended and what is not.
package croft
