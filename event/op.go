package event

// Op names an operation of a session, as its records do.
type Op string

// The operations that the field already names (case EV-038).
const (
	OpStart              Op = "start"
	OpStop               Op = "stop"
	OpShutdown           Op = "shutdown"
	OpRunning            Op = "running"
	OpExec               Op = "exec"
	OpRead               Op = "read"
	OpWrite              Op = "write"
	OpPersistWorkspace   Op = "persist_workspace"
	OpHydrateWorkspace   Op = "hydrate_workspace"
	OpResolveExposedPort Op = "resolve_exposed_port"
	OpMaterialize        Op = "materialize"
	OpSnapshotPersist    Op = "snapshot_persist"
	OpSnapshotRestore    Op = "snapshot_restore"
	OpApplyPatch         Op = "apply_patch"
)

// croft's own operations: each method of a session that does something has one.
const (
	OpCreate    Op = "create"
	OpResume    Op = "resume"
	OpClose     Op = "close"
	OpDelete    Op = "delete"
	OpFork      Op = "fork"
	OpSpawn     Op = "spawn"
	OpProcesses Op = "processes"
	OpAppend    Op = "append"
	OpList      Op = "list"
	OpStat      Op = "stat"
	OpLstat     Op = "lstat"
	OpMkdir     Op = "mkdir"
	OpRemove    Op = "remove"
	OpRename    Op = "rename"
	OpCopy      Op = "copy"
	OpSymlink   Op = "symlink"
	OpReadlink  Op = "readlink"
	OpChmod     Op = "chmod"
	OpGlob      Op = "glob"
	OpSearch    Op = "search"
	OpWatch     Op = "watch"
	OpExtract   Op = "extract"
	OpDial      Op = "dial"
)

var knownOps = func() map[Op]bool {
	m := make(map[Op]bool)
	for _, op := range Ops() {
		m[op] = true
	}
	return m
}()

func (o Op) known() bool { return knownOps[o] }

// Ops returns every operation that a record may name.
func Ops() []Op {
	return []Op{
		OpStart, OpStop, OpShutdown, OpRunning, OpExec, OpRead, OpWrite, OpPersistWorkspace,
		OpHydrateWorkspace, OpResolveExposedPort, OpMaterialize, OpSnapshotPersist,
		OpSnapshotRestore, OpApplyPatch,
		OpCreate, OpResume, OpClose, OpDelete, OpFork, OpSpawn, OpProcesses, OpAppend, OpList,
		OpStat, OpLstat, OpMkdir, OpRemove, OpRename, OpCopy, OpSymlink, OpReadlink, OpChmod,
		OpGlob, OpSearch, OpWatch, OpExtract, OpDial,
	}
}
