package state

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// What a mount may do outside is authority, not only its secrets: the name of an
// identity or the place of a credential file grants access as well. All of it is
// taken out of a state before anything else looks at it, whatever its type, so
// that no error and no log can repeat it (cases SS-144 to SS-148).

// authorityFields are the credentials by type of mount.
var authorityFields = map[string][]string{
	"azure_blob_mount": {"identity_client_id", "account_key"},
	"box_mount":        {"client_id", "client_secret", "access_token", "token", "box_config_file", "config_credentials"},
	"gcs_mount":        {"access_id", "secret_access_key", "service_account_file", "service_account_credentials", "access_token"},
	"r2_mount":         {"access_key_id", "secret_access_key"},
	"s3_mount":         {"access_key_id", "secret_access_key", "session_token"},
	"s3_files_mount":   {},
}

// credentialFiles are those of them that name a file.
var credentialFiles = map[string]bool{"box_config_file": true, "service_account_file": true}

// urlFields may hide credentials in a URL.
var urlFields = map[string][]string{
	"azure_blob_mount": {"endpoint"},
	"gcs_mount":        {"endpoint_url"},
	"r2_mount":         {"custom_domain"},
	"s3_mount":         {"endpoint_url"},
}

// redactor takes authority out of the manifest of a payload.
type redactor struct {
	redacted bool
	files    []string // names of credential files, as they were written
}

// redactMounts takes every authority of a mount out of the manifest, and the
// content of manifest files that a mount names as its credential file. It reports
// whether there was any.
func redactMounts(manifest *value) bool {
	r := &redactor{}
	manifest.all("entries", r.entries)
	if len(r.files) > 0 {
		root, _ := manifest.get("root").text()
		if root == "" {
			root = "/workspace"
		}
		for _, f := range r.files {
			target := absolute(root, f)
			manifest.all("entries", func(v *value) { r.credentialFile(v, root, target) })
		}
	}
	return r.redacted
}

func (r *redactor) entries(v *value) {
	for _, m := range v.members {
		isMount := false
		m.v.all("type", func(t *value) {
			if kind, ok := t.text(); ok && authorityFields[kind] != nil {
				isMount = true
				r.mount(m.v, kind)
			}
		})
		if !isMount {
			m.v.all("children", r.entries)
		}
	}
}

func (r *redactor) mount(entry *value, kind string) {
	for _, name := range authorityFields[kind] {
		entry.all(name, func(v *value) {
			if file, ok := v.text(); ok && credentialFiles[name] {
				r.files = append(r.files, file)
			}
			r.drop(v, v.null(), value{})
		})
	}
	for _, name := range urlFields[kind] {
		entry.all(name, func(v *value) { r.drop(v, !urlHoldsAuthority(v), value{}) })
	}
	entry.all("extra_options", func(v *value) { r.drop(v, v.empty(), value{kind: '{'}) })
	entry.all("mount_strategy", r.strategy)
}

// strategy takes out of a strategy what only its driver or tool understands.
func (r *redactor) strategy(s *value) {
	s.all("driver_options", func(v *value) { r.drop(v, v.empty(), value{kind: '{'}) })
	s.all("pattern", func(p *value) {
		p.all("config_file_path", func(v *value) {
			if file, ok := v.text(); ok {
				r.files = append(r.files, file)
			}
			r.drop(v, v.null(), value{})
		})
		p.all("remote_name", func(v *value) { r.drop(v, remoteNameIsPlain(v), value{}) })
		p.all("extra_args", func(v *value) { r.drop(v, argsArePlain(v), value{kind: '['}) })
		p.all("options", func(o *value) {
			o.all("endpoint_url", func(v *value) { r.drop(v, !urlHoldsAuthority(v), value{}) })
			o.all("extra_options", func(v *value) { r.drop(v, v.empty(), value{kind: '{'}) })
		})
	})
}

// drop replaces v unless it is harmless.
func (r *redactor) drop(v *value, harmless bool, with value) {
	if !harmless {
		v.set(with)
		r.redacted = true
	}
}

// credentialFile empties the manifest's file at the absolute path target, which
// holds credentials.
func (r *redactor) credentialFile(entries *value, dir, target string) {
	for _, m := range entries.members {
		at := absolute(dir, m.name)
		if at == target {
			m.v.all("content", func(v *value) { r.drop(v, v.empty(), value{scalar: ""}) })
			m.v.all("content_base64", func(v *value) { r.drop(v, v.empty(), value{scalar: ""}) })
		}
		m.v.all("children", func(c *value) { r.credentialFile(c, at, target) })
	}
}

func absolute(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	return path.Join("/", dir, name)
}

// urlHoldsAuthority reports whether a URL has a user, a password or a query, or
// cannot be read as one; null has none.
func urlHoldsAuthority(v *value) bool {
	if v.null() {
		return false
	}
	s, ok := v.text()
	if !ok || strings.Contains(s, "@") || strings.ContainsAny(s, "\r\n") {
		return true
	}
	u, err := url.Parse(s)
	return err != nil || u.User != nil || u.RawQuery != ""
}

var plainRemoteName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_. -]*[A-Za-z0-9_.-])?$`)

// remoteNameIsPlain reports whether v is a name in an rclone configuration and
// not an inline one, such as ":s3,secret_access_key=...:".
func remoteNameIsPlain(v *value) bool {
	if v.empty() {
		return true
	}
	s, ok := v.text()
	return ok && plainRemoteName.MatchString(s)
}

// argsArePlain reports whether v is a list of the few rclone arguments that give
// no access to anything.
func argsArePlain(v *value) bool {
	if v.empty() {
		return true
	}
	if v.kind != '[' {
		return false
	}
	for i := 0; i < len(v.items); i++ {
		s, ok := v.items[i].text()
		if !ok || !strings.HasPrefix(s, "--") {
			return false
		}
		name, _, inline := strings.Cut(s[2:], "=")
		switch name {
		case "allow-other":
		case "buffer-size", "gid", "uid":
			if inline {
				continue
			}
			i++
			if i >= len(v.items) {
				return false
			}
			if arg, ok := v.items[i].text(); !ok || strings.HasPrefix(arg, "-") {
				return false
			}
		default:
			return false
		}
	}
	return true
}
