package manifest

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/fault"
)

// parseText parses a manifest that is good.
func parseText(t *testing.T, text string) *Manifest {
	t.Helper()
	m, err := Parse([]byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		depth      int
		want       string
	}{
		{"empty", `{}`, 1, "/workspace\n"},
		{"root as written", `{"root": "/srv//ws//", "entries": {"a": {"type": "dir"}}}`, 1, "/srv//ws\n└── a/  # /srv/ws/a\n"},
		{"parents that nobody wrote", `{"entries": {"a/b": {"type": "file", "content": "", "description": "d"}}}`, 1, "/workspace\n└── a/  # /workspace/a\n"},
		{
			"a name cannot forge a line", `{"entries": {"a\n└── b": {"type": "file", "content": ""}}}`, 1,
			"/workspace\n└── a\\x0a└── b  # /workspace/a\\x0a└── b\n",
		},
		{
			"the workspace itself", `{"entries": {".": {"type": "local_dir", "src": "p"}, "a": {"type": "dir"}}}`, 1,
			"/workspace\n└── a/  # /workspace/a\n",
		},
		{
			"relative mount path", `{"entries": {"m": {"type": "s3_mount", "bucket": "b", "mount_path": "x/y", "mount_strategy": {"type": "docker_volume", "driver": "rclone"}}}}`, 1,
			"/workspace\n└── m/  # /workspace/x/y\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseText(t, tt.text).Describe(tt.depth, DescribeChars)
			if err != nil || got != tt.want {
				t.Errorf("Describe = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	for _, bad := range [][2]int{{0, 1}, {-1, 1}, {1, 0}} {
		if _, err := parseText(t, `{}`).Describe(bad[0], bad[1]); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("Describe(%d, %d) = %v, want %s", bad[0], bad[1], err, fault.InvalidArgument)
		}
	}
}

// TestTruncate checks the rule for every limit: never longer than it, and nothing lost unsaid.
func TestTruncate(t *testing.T) {
	text := strings.Repeat("ab \n日", 60)
	for limit := range utf8.RuneCountInString(text) + 2 {
		got := Truncate(text, limit)
		switch {
		case utf8.RuneCountInString(got) > limit:
			t.Fatalf("limit %d: %d characters", limit, utf8.RuneCountInString(got))
		case !utf8.ValidString(got):
			t.Fatalf("limit %d: a character was cut in half", limit)
		case limit >= utf8.RuneCountInString(text) && got != text:
			t.Fatalf("limit %d: changed for nothing", limit)
		}
	}
}
