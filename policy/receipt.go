package policy

// ReceiptVersion is the version of the receipt's form. A field is added without a
// new version; one that changes its meaning gets one.
const ReceiptVersion = 1

// Receipt tells what confines the commands of a session. Everything in it that the
// kernel can tell was read back from the kernel after the confinement was complete
// and before the first command ran; what the kernel cannot tell (the rules of
// landlock, the text of the seccomp filter) is what was handed to it, and a trial
// has shown that it is in force.
type Receipt struct {
	Version int  `json:"version"`
	Tier    Tier `json:"tier"`
	Floor   Tier `json:"floor"`
	// Namespaces maps user, mnt, pid, ipc, uts, net and cgroup to the namespace's
	// inode number as text, for those that are not the host's.
	Namespaces map[string]string `json:"namespaces"`
	Mounts     []Mount           `json:"mounts"`
	Landlock   LandlockReceipt   `json:"landlock"`
	Seccomp    SeccompReceipt    `json:"seccomp"`
	// Capabilities are those that a command has or could gain: empty when confined.
	Capabilities []string `json:"capabilities"`
	NoNewPrivs   bool     `json:"no_new_privs"`
	Network      Network  `json:"network"`
	Limits       []Limit  `json:"limits"`
	UIDMap       []IDMap  `json:"uid_map"`
	// Root is the workspace's path as commands see it.
	Root string `json:"root"`
	// NotEnforced lists what was asked for, or what a reader could expect, and is not in force.
	NotEnforced []NotEnforced `json:"not_enforced"`
}

// Mount is one mount that commands see.
type Mount struct {
	Target    string `json:"target"`
	Type      string `json:"type"`
	ReadOnly  bool   `json:"read_only"`
	NoSUID    bool   `json:"nosuid"`
	NoDev     bool   `json:"nodev"`
	IDMapped  bool   `json:"idmapped,omitempty"`
	Workspace bool   `json:"workspace,omitempty"`
}

// LandlockReceipt is the landlock domain of the commands. ABI 0: none.
type LandlockReceipt struct {
	ABI   int            `json:"abi"`
	Rules []LandlockRule `json:"rules"`
	// Scopes are the kinds of objects outside the domain that commands cannot reach:
	// "signal", "abstract_unix_socket".
	Scopes []string `json:"scopes,omitempty"`
}

// LandlockRule grants access beneath one path.
type LandlockRule struct {
	Path   string `json:"path"`
	Access string `json:"access"` // "list", "read", "write", "device" or "proc"
}

// SeccompReceipt is the system call filter of the commands. An empty Policy: none.
type SeccompReceipt struct {
	Policy string `json:"policy"`
	// Digest is the SHA-256 of the filter program, as sha256:hex.
	Digest string `json:"digest"`
}

// Limit is one resource limit.
type Limit struct {
	Name      string `json:"name"`
	Asked     string `json:"asked"`
	Enforced  string `json:"enforced"`
	Mechanism string `json:"mechanism"`
}

// IDMap is one line of the user namespace's uid map.
type IDMap struct {
	Inside  uint32 `json:"inside"`
	Outside uint32 `json:"outside"`
	Count   uint32 `json:"count"`
}

// NotEnforced is one thing that is not in force, and why.
type NotEnforced struct {
	Asked  string `json:"asked"`
	Reason string `json:"reason"`
}
