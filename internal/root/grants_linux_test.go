package root

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

// reasonOf returns the code and reason of an error as one word, "" for nil.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fmt.Sprintf("%T", err)
	}
	return string(e.Code) + "/" + e.Reason
}

const (
	readOnlyGrant = "workspace_archive_write_error/read_only_extra_path_grant"
	escapes       = "invalid_manifest_path/escape_root"
	notIn         = "invalid_manifest_path/absolute"
	notFound      = "workspace_read_not_found/missing"
)

// A read-only grant below the workspace, and a writable one below that, are the
// most specific rules there, by whatever name they are reached.
func TestNestedGrants(t *testing.T) {
	ctx := t.Context()
	writing := func(name string) func(*Tree) error {
		return func(tr *Tree) error {
			_, err := tr.WriteFile(ctx, name, strings.NewReader("new"), WriteOptions{})
			return err
		}
	}
	for _, tt := range []struct {
		name string
		do   func(tr *Tree) error
		want string
	}{
		{"write beside", writing("src/f"), ""},
		{"write in the read-only grant", writing("vendor/f"), readOnlyGrant},
		{"write a new file there", writing("vendor/new"), readOnlyGrant},
		{"write there by a link", writing("link/f"), readOnlyGrant},
		{"write there by a link to the file", writing("flink"), readOnlyGrant},
		{"write there by ..", writing("vendor/rw/../f"), readOnlyGrant},
		{"write in the writable grant below", writing("vendor/rw/f"), ""},
		{"write to a granted file", writing("conf"), readOnlyGrant},
		{"write to a hard link of the granted file", writing("hard"), readOnlyGrant},
		{"append", func(tr *Tree) error {
			_, err := tr.AppendFile(ctx, "vendor/f", strings.NewReader("x"), WriteOptions{})
			return err
		}, readOnlyGrant},
		{"mkdir", func(tr *Tree) error { return tr.Mkdir(ctx, "vendor/d/e", MkdirOptions{Parents: true}) }, readOnlyGrant},
		{"chmod", func(tr *Tree) error { return tr.Chmod(ctx, "link/f", 0o600, nil) }, readOnlyGrant},
		{"symlink", func(tr *Tree) error { return tr.Symlink(ctx, "x", "vendor/s", nil) }, readOnlyGrant},
		{"rename out", func(tr *Tree) error { return tr.Rename(ctx, "vendor/f", "f", RenameOptions{}) }, readOnlyGrant},
		{"rename in", func(tr *Tree) error { return tr.Rename(ctx, "src/f", "vendor/f", RenameOptions{}) }, readOnlyGrant},
		{"copy in", func(tr *Tree) error { return tr.Copy(ctx, "src/f", "vendor/g", CopyOptions{}) }, readOnlyGrant},
		{"copy out", func(tr *Tree) error { return tr.Copy(ctx, "vendor/f", "g", CopyOptions{}) }, ""},
		{"remove in it", func(tr *Tree) error { return tr.Remove(ctx, "vendor/f", RemoveOptions{}) }, readOnlyGrant},
		{"remove it", func(tr *Tree) error { return tr.Remove(ctx, "vendor", RemoveOptions{Recursive: true}) }, readOnlyGrant},
		{"remove the granted file", func(tr *Tree) error { return tr.Remove(ctx, "conf", RemoveOptions{}) }, readOnlyGrant},
		{"remove another name of the granted file", func(tr *Tree) error { return tr.Remove(ctx, "hard", RemoveOptions{}) }, ""},
		{"remove a link to it", func(tr *Tree) error { return tr.Remove(ctx, "link", RemoveOptions{}) }, ""},
		{"replace the granted file by rename", func(tr *Tree) error { return tr.Rename(ctx, "src/f", "conf", RenameOptions{}) }, readOnlyGrant},
		{"rename it", func(tr *Tree) error { return tr.Rename(ctx, "vendor", "v2", RenameOptions{}) }, readOnlyGrant},
		{"rename a directory that holds one", func(tr *Tree) error { return tr.Rename(ctx, "deep", "deep2", RenameOptions{}) },
			"workspace_archive_write_error/holds_grant"},
		{"rename a writable grant", func(tr *Tree) error { return tr.Rename(ctx, "deep/er/grant", "g", RenameOptions{}) },
			"workspace_archive_write_error/is_root"},
		{"remove a directory that holds one", func(tr *Tree) error { return tr.Remove(ctx, "deep", RemoveOptions{Recursive: true}) },
			"workspace_archive_write_error/holds_grant"},
		{"empty a writable grant", func(tr *Tree) error {
			err := tr.Remove(ctx, "deep/er/grant", RemoveOptions{Recursive: true})
			if _, serr := tr.Stat(ctx, "deep/er/grant", nil); err == nil && serr != nil {
				return serr
			}
			return err
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws := tempDir(t) + "/ws"
			for _, f := range []string{"src/f", "vendor/f", "vendor/rw/f", "conf", "deep/er/grant/f", "deep/other"} {
				put(t, ws+"/"+f, "old", 0o644)
			}
			must(t, os.Symlink("vendor", ws+"/link"))
			must(t, os.Symlink(ws+"/vendor/f", ws+"/flink"))
			must(t, os.Link(ws+"/conf", ws+"/hard"))
			tr, err := Open(Options{Path: ws, Grants: []Grant{{Path: ws + "/vendor", ReadOnly: true}, {Path: ws + "/vendor/rw"},
				{Path: ws + "/conf", ReadOnly: true}, {Path: ws + "/deep/er/grant"}}})
			must(t, err)
			defer tr.Close()
			if got := reasonOf(tt.do(tr)); got != tt.want {
				t.Errorf("error = %q, want %q", got, tt.want)
			}
			for _, f := range []string{"vendor/f", "conf"} {
				if content(ws+"/"+f) != "old" {
					t.Errorf("%s was changed", f)
				}
			}
			if tt.name == "remove a directory that holds one" && content(ws+"/deep/er/grant/f") != "old" {
				t.Error("the grant's content is gone")
			}
		})
	}
}

// Emptying the workspace leaves a grant in it.
func TestEmptyWorkspaceKeepsGrants(t *testing.T) {
	ws := tempDir(t) + "/ws"
	for _, f := range []string{"a/b", "a/c/grant/f", "top"} {
		put(t, ws+"/"+f, "old", 0o644)
	}
	tr, err := Open(Options{Path: ws, Grants: []Grant{{Path: ws + "/a/c/grant", ReadOnly: true}}})
	must(t, err)
	defer tr.Close()
	// By another name than the one that was granted: it is known by what it is.
	must(t, os.Rename(ws+"/a/c", ws+"/a/moved"))
	err = tr.Remove(t.Context(), ".", RemoveOptions{Recursive: true})
	e, _ := errors.AsType[*fault.Error](err)
	if reasonOf(err) != "workspace_archive_write_error/holds_grant" || e.Details["left_count"] != int64(1) {
		t.Errorf("error = %v", err)
	}
	onlyEntries(t, ws, "a")
	if content(ws+"/a/moved/grant/f") != "old" {
		t.Error("the grant's content is gone")
	}
}

// Grants around the workspace, and those that lead nowhere or to everything.
func TestGrantRoots(t *testing.T) {
	tmp := tempDir(t)
	ws := tmp + "/srv/ws"
	put(t, ws+"/f", "inside", 0o644)
	put(t, tmp+"/srv/g", "granted", 0o644)
	put(t, tmp+"/one", "file", 0o644)
	put(t, tmp+"/two", "secret", 0o644)
	must(t, os.Symlink("/", tmp+"/all"))
	must(t, os.Symlink(tmp+"/one", ws+"/toone"))
	open := func(grants ...Grant) *Tree {
		tr, err := Open(Options{Path: ws, Grants: grants})
		must(t, err)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	ctx := t.Context()
	above := open(Grant{Path: tmp + "/srv", ReadOnly: true}, Grant{Path: tmp + "/one", ReadOnly: true})
	rwFile := open(Grant{Path: tmp + "/one"})
	missing := open(Grant{Path: tmp + "/none"}, Grant{Path: tmp + "/nonero", ReadOnly: true})
	void := open(Grant{Path: tmp + "/all"})
	write := func(tr *Tree, name string) error {
		_, err := tr.WriteFile(ctx, name, strings.NewReader("new"), WriteOptions{})
		return err
	}
	read := func(tr *Tree, name string) error { _, err := tr.ReadFile(ctx, name, ReadOptions{}); return err }
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"the workspace in a read-only grant is writable", write(above, "f"), ""},
		{"and by its path", write(above, ws+"/f"), ""},
		{"and by a way through the grant", write(above, tmp+"/srv/ws/../ws/f"), ""},
		{"the grant is not", write(above, tmp+"/srv/g"), readOnlyGrant},
		{"nor by .. from the workspace", write(above, ws+"/../g"), readOnlyGrant},
		{"a relative name does not leave by its text", read(above, "../g"), escapes},
		{"reading is fine", read(above, ws+"/../g"), ""},
		{"a granted file", read(above, tmp+"/one"), ""},
		{"a link to it", read(above, "toone"), ""},
		{"nothing below it", read(above, tmp+"/one/x"), "workspace_archive_read_error/not_directory"},
		{"not its neighbour", read(above, tmp+"/two"), notIn},
		{"a granted file is written in place", write(rwFile, tmp+"/one"), ""},
		{"and not removed", rwFile.Remove(ctx, tmp+"/one", RemoveOptions{Recursive: true}), "workspace_archive_write_error/is_root"},
		{"a missing grant is not found", read(missing, tmp+"/none/x"), notFound},
		{"a missing grant is not made", write(missing, tmp+"/none/x"), "workspace_archive_write_error/missing"},
		{"a grant of everything is void", read(void, tmp+"/all/etc/passwd"), "invalid_argument/filesystem_root"},
		{"also under other names", read(void, "/etc/passwd"), "invalid_argument/filesystem_root"},
		{"the workspace goes on", read(void, "f"), ""},
		{"host paths of a grant", func() error {
			_, err := Open(Options{Path: ws, Grants: []Grant{{Path: "/mnt/x", HostPath: "/srv"}}})
			return err
		}(), "unsupported/host_path"},
		{"no workspace", func() error { _, err := Open(Options{Path: tmp + "/none"}); return err }(), "workspace_root_not_found/missing"},
		{"a file as workspace", func() error { _, err := Open(Options{Path: tmp + "/one"}); return err }(), "workspace_root_not_found/not_directory"},
	} {
		if got := reasonOf(tt.err); got != tt.want {
			t.Errorf("%s: error = %q, want %q (%v)", tt.name, got, tt.want, tt.err)
		}
	}
	if content(tmp+"/one") != "new" {
		t.Error("the granted file was not written")
	}
	if g := void.GrantRoots(); len(g) != 1 || !g[0].Void || g[0].Canonical != "" {
		t.Errorf("GrantRoots = %+v", g)
	}
	if g := missing.GrantRoots(); len(g) != 2 || !g[0].Missing {
		t.Errorf("GrantRoots = %+v", g)
	}
}

// The path under which commands see the workspace means the workspace, also in
// links that they made.
func TestSpellings(t *testing.T) {
	tr, ws := openTemp(t, Options{Spellings: []string{"/workspace"}})
	put(t, ws+"/d/f", "inside", 0o644)
	for link, target := range map[string]string{
		"abs": "/workspace/d/f", "absdir": "/workspace/d", "host": ws + "/d/f", "up": "/workspace/d/../d/f",
		"out": "/workspace/../etc/passwd", "twice": "//workspace/d/f", "self": "/workspace",
	} {
		must(t, os.Symlink(target, ws+"/"+link))
	}
	for name, want := range map[string]string{
		"abs": "", "absdir/f": "", "host": "", "up": "", "twice": "", "self/self/d/f": "", "/workspace/d/f": "",
		"/workspace/absdir/f": "", "/workspace/d/../abs": "", "out": escapes, "/workspace/out": notIn,
		"/workspace/../etc/passwd": notIn, "/etc/passwd": notIn, "/workspaces/d/f": notIn, "../workspace/d/f": "",
	} {
		data, err := tr.ReadFile(t.Context(), name, ReadOptions{})
		if reasonOf(err) != want || want == "" && string(data) != "inside" {
			t.Errorf("%s: %q, error = %v, want %q", name, data, err, want)
		}
	}
}

// Nothing outside the roots can be told from an error.
func TestOutsideLooksAlike(t *testing.T) {
	tr, ws := openTemp(t, Options{})
	tmp := strings.TrimSuffix(ws, "/ws")
	put(t, ws+"/f", "inside", 0o644)
	put(t, tmp+"/dir/file", "x", 0o600)
	messages := map[string]bool{}
	for i, target := range []string{tmp + "/dir", tmp + "/dir/file", tmp + "/none", tmp + "/none/x", tmp + "/dir/file/x", "/"} {
		link := fmt.Sprint("l", i)
		must(t, os.Symlink(target, ws+"/"+link))
		_, err := tr.ReadFile(t.Context(), link, ReadOptions{})
		if reasonOf(err) != escapes {
			t.Errorf("%s: %v", target, err)
		}
		messages[strings.ReplaceAll(err.Error(), link, "l")] = true
		// Nor by whether a detour works.
		must(t, os.Symlink(target+"/"+strings.Repeat("../", 20)+ws+"/f", ws+"/d"+link))
		if _, err := tr.ReadFile(t.Context(), "d"+link, ReadOptions{}); err != nil {
			t.Errorf("detour by %s: %v", target, err)
		}
	}
	if len(messages) != 1 {
		t.Errorf("different errors: %v", messages)
	}
}

func TestClose(t *testing.T) {
	tr, ws := openTemp(t, Options{})
	put(t, ws+"/f", "x", 0o644)
	must(t, tr.Close())
	must(t, tr.Close())
	_, err := tr.ReadFile(context.Background(), "f", ReadOptions{})
	if !errors.Is(err, fault.NotAvailable) {
		t.Errorf("read after Close = %v, want not_available", err)
	}
}
