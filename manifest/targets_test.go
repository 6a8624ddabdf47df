package manifest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

// mountAt is a manifest with one mount that appears at path.
func mountAt(path string) string {
	return fmt.Sprintf(`{"entries": {"m": {"type": "s3_mount", "bucket": "b", "mount_path": %q,
		"mount_strategy": {"type": "docker_volume", "driver": "rclone"}}}}`, path)
}

func TestMountTargets(t *testing.T) {
	for _, tt := range []struct {
		path, want string
		reason     string
	}{
		{path: "x", want: "/workspace/x"},
		{path: `x\y`, want: "/workspace/x/y"},
		{path: ".", want: "/workspace"},
		{path: "a/../b", want: "/workspace/b"},
		{path: "/workspace/a/../b", want: "/workspace/b"},
		{path: "/mnt//x/", want: "/mnt/x"},
		{path: "/workspace2/x", want: "/workspace2/x"},
		{path: "../x", reason: "escape_root"},
		{path: "a/../../workspace/x", reason: "escape_root"},
		{path: "/workspace/../workspace/x", reason: "escape_root"},
		{path: "/mnt/../workspace/x", reason: "escape_root"},
		{path: "C:/x", reason: "absolute"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			m, err := Parse([]byte(mountAt(tt.path)), Options{})
			if tt.reason != "" {
				e, ok := errors.AsType[*fault.Error](err)
				if !ok || e.Code != fault.InvalidManifestPath || e.Reason != tt.reason {
					t.Errorf("Parse = %v, want %s of the reason %s", err, fault.InvalidManifestPath, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			targets, err := m.MountTargets()
			if err != nil || len(targets) != 1 || targets[0].Path != tt.want {
				t.Errorf("MountTargets = %v, %v; want %s", targets, err, tt.want)
			}
		})
	}
}

// TestEphemeralPaths leaves the workspace itself out, also where a mount covers it.
func TestEphemeralPaths(t *testing.T) {
	m := parseText(t, mountAt("."))
	got, err := m.EphemeralPaths()
	if err != nil || !slices.Equal(got, []string{"m"}) {
		t.Errorf("EphemeralPaths = %v, %v; want [m]", got, err)
	}
}

func TestResolvePath(t *testing.T) {
	for _, tt := range []struct {
		root, path string
		absolute   bool
		want       string
		reason     string
	}{
		{root: "/workspace", path: "a/b", want: "/workspace/a/b"},
		{root: "/workspace/", path: ".", want: "/workspace"},
		{root: "/", path: "a", want: "/a"},
		{root: "/workspace", path: "/workspace/a", reason: "absolute"},
		{root: "/workspace", path: "/workspace/a/../b", absolute: true, want: "/workspace/b"},
		{root: "/workspace", path: "/workspace/../x", absolute: true, reason: "absolute"},
		{root: "/workspace", path: "/workspace2", absolute: true, reason: "absolute"},
		{root: "/workspace", path: "a/../b", reason: "escape_root"},
		{root: "/workspace", path: `..\x`, absolute: true, reason: "escape_root"},
		{root: "/workspace", path: `C:\x`, absolute: true, reason: "absolute"},
		{root: "/workspace", path: "C:x", want: "/workspace/C:x"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			got, err := ResolvePath(tt.root, tt.path, tt.absolute)
			reason := ""
			if e, ok := errors.AsType[*fault.Error](err); ok {
				reason = e.Reason
			}
			if got != tt.want || reason != tt.reason {
				t.Errorf("ResolvePath = %q, %v; want %q, reason %q", got, err, tt.want, tt.reason)
			}
		})
	}
}
