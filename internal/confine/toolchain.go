package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemPath is the PATH of the system directories, which commands always see.
var systemPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// managers are version managers that keep programs beside thin starters: the
// directory on PATH, by its last two elements, and what must be readable, relative to
// the first of them. None of these directories holds credentials.
var managers = map[string][]string{
	".pyenv/shims":  {".pyenv"},
	".pyenv/bin":    {".pyenv"},
	".rbenv/shims":  {".rbenv"},
	".rbenv/bin":    {".rbenv"},
	".nodenv/shims": {".nodenv"},
	".goenv/shims":  {".goenv"},
	".asdf/shims":   {".asdf"},
	".volta/bin":    {".volta"},
	// ~/.cargo holds credentials.toml, so only its programs are shown; they start
	// the toolchains of rustup.
	".cargo/bin": {".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml"},
}

// mixed are directories that have a bin beside private things.
var mixed = []string{".local", ".cargo", ".config", ".cache", ".ssh", ".gnupg"}

// toolchains returns the host paths to show so that the programs in the PATH
// directory dir run: the directory itself, or the whole tool that it belongs to.
// It never returns a home directory or something that contains one.
func toolchains(dir string, homes []string) []string {
	parent := filepath.Dir(dir)
	if list, ok := managers[filepath.Base(parent)+"/"+filepath.Base(dir)]; ok {
		var shown []string
		for _, name := range list {
			shown = append(shown, filepath.Join(filepath.Dir(parent), name))
		}
		return shown
	}
	if filepath.Base(dir) == "bin" && !slices.Contains(mixed, filepath.Base(parent)) &&
		!containsHome(parent, homes) && looksLikeTool(parent) {
		return []string{parent}
	}
	if containsHome(dir, homes) {
		return nil
	}
	return []string{dir}
}

// looksLikeTool reports whether the directory is the prefix of an installation.
func looksLikeTool(dir string) bool {
	for _, name := range []string{"lib", "lib64", "libexec"} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil && fi.IsDir() {
			return true
		}
	}
	return false
}

func containsHome(dir string, homes []string) bool {
	return slices.ContainsFunc(homes, func(h string) bool { return within(h, dir) })
}

// homeDirs returns the home directories of this host that an account file or the
// environment names, with their canonical spellings.
func homeDirs() []string {
	homes := []string{"/root", "/home"}
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		homes = append(homes, filepath.Clean(h))
	}
	if b, err := os.ReadFile("/etc/passwd"); err == nil {
		for line := range strings.Lines(string(b)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			// System accounts name directories such as /usr/sbin or / that are no homes.
			if len(f) >= 7 && (below(f[5], "/home") || below(f[5], "/Users")) {
				homes = append(homes, filepath.Clean(f[5]))
			}
		}
	}
	for _, h := range slices.Clone(homes) {
		if resolved, err := filepath.EvalSymlinks(h); err == nil && resolved != h {
			homes = append(homes, resolved)
		}
	}
	return homes
}

// pathDirs returns the absolute directories of a PATH that exist, each once. A
// relative element means the working directory of whoever runs something, which is
// not something to show.
func pathDirs(searchPath string) []string {
	var dirs []string
	for _, d := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(d) {
			continue
		}
		d = filepath.Clean(d)
		if fi, err := os.Stat(d); err == nil && fi.IsDir() && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}
