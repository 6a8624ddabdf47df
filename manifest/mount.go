package manifest

// Mount is remote storage made visible inside the workspace: an entry of one of
// the six types s3_mount, gcs_mount, r2_mount, azure_blob_mount, box_mount and
// s3_files_mount. Mounts are checked here; croft refuses to fill a workspace from
// a manifest that has one.
type Mount struct {
	Meta
	// Kind is the entry's type.
	Kind string
	// Path is where the storage appears if not under the entry's own name
	// (mount_path): relative to the root, or absolute; empty means the entry's name.
	Path string
	// ReadOnly forbids writing to the storage. It is the default.
	ReadOnly bool
	// Strategy is how the storage is mounted.
	Strategy MountStrategy
	// Settings are the fields of the mount's own type, such as "bucket", each
	// with what was written or its default.
	Settings Settings
}

// Type returns the mount's Kind.
func (m *Mount) Type() string { return m.Kind }

// IsDir returns true.
func (*Mount) IsDir() bool { return true }

// MountStrategy is how storage is mounted: by a tool inside the session
// ("in_container") or by a volume driver ("docker_volume").
type MountStrategy struct {
	// Type is "in_container" or "docker_volume".
	Type string
	// Pattern is the tool of the type in_container: "rclone", "mountpoint",
	// "fuse" or "s3files".
	Pattern string
	// Settings are the fields of the pattern, or of the volume driver.
	Settings Settings
}

// Settings are the fields of a mount, a pattern or a driver, in the order of the format.
type Settings []Setting

// Setting is one field. Its value is nil, a string, a bool, an int64, a []string, or
// a Settings: a nested object, or a map whose values are strings or nil.
type Setting struct {
	Name  string
	Value any
}

// Text returns the text of the named setting, or "" if it has none.
func (s Settings) Text(name string) string {
	for _, f := range s {
		if f.Name == name {
			text, _ := f.Value.(string)
			return text
		}
	}
	return ""
}
