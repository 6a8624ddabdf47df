// Package confine starts commands that can touch what their policy allows and
// nothing else.
//
// A [Launcher] belongs to one client and owns a small helper process, the starter.
// [Launcher.Start] makes a [Cell] for one session: the starter forks a warden into
// fresh namespaces; the warden builds a root file system from nothing, confines
// the one thread that forks commands, and reports what the kernel says about it as
// a [policy.Receipt]. From then on [Cell.Spawn] starts a command for about the cost
// of a plain fork and exec.
//
//	l := confine.NewLauncher("")
//	defer l.Close()
//	cell, err := l.Start(ctx, confine.Spec{Workspace: confine.Bind{Path: dir, Dir: f, Target: "/workspace"}})
//	child, err := cell.Spawn(ctx, process.Spec{Argv: []string{"true"}, Files: files})
//
// Helpers are this program or another croft, executed again: a program that uses the
// package calls [Init] first thing in main.
//
// A tier either is in force as a whole or Start fails with
// fault.ConfinementUnavailable, naming what is missing and what would bring it.
// Nothing falls back to a weaker tier.
//
// # How a session ends
//
// The cell's lifeline is a socketpair between this process and the warden. When
// this process closes it or dies, in whatever way, the warden exits; it is PID 1 of its
// pid namespace, so the kernel kills everything inside with it, and the mounts go with
// the last process. Should the warden hang, the starter (which sees the end of its own
// socketpair) kills it within a second, and should the starter die, the kernel kills the
// warden by its parent-death signal.
//
// # What the package does not do
//
// It does not defend against bugs in the kernel. It limits no resources yet.
package confine
