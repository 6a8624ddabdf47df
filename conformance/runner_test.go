package conformance

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

// probe is an area of the runner's own tests.
var probe = area{
	name: "probe",
	calls: map[string]call{
		"echo": {fields: "text list owner", match: map[string]match{"list": unordered(equal)}, run: runEcho},
	},
}

func runEcho(_ *env, op *fields) (outcome, error) {
	text := op.str("text")
	if code, ok := op.optStr("fail"); ok {
		return outcome{"text": text}, &fault.Error{Code: fault.Code(code), Path: "a/b", Reason: "why"}
	}
	return outcome{"text": text, "list": op.strs("list"), "owner": map[string]int{"uid": 0}}, nil
}

// TestRunner holds the runner to its rule: what it does not know fails the case,
// and so does every difference.
func TestRunner(t *testing.T) {
	areas[probe.name] = probe
	defer delete(areas, probe.name)
	for _, tt := range []struct {
		name, json string
		want       string // the result
		why        string // a part of the reason
	}{
		{"passes", `{"op":{"call":"echo","text":"x"},"expect":{"ok":true,"text":"x"}}`, passed, ""},
		{"placeholders", `{"setup":[{"dir":"${ROOT}/d"}],"op":{"call":"echo","text":"${APP}"},"expect":{"ok":true,"text":"croft","tree":{"d":{"dir":true,"mode":"0755"}}}}`, passed, ""},
		{"free order", `{"op":{"call":"echo","text":"","list":["b","a"]},"expect":{"ok":true,"list":["a","b"]}}`, passed, ""},
		{"contains", `{"op":{"call":"echo","text":"abc","list":["b","a"]},"expect":{"ok":true,"text_contains":"b","text_starts":"a","list_contain":["a"]}}`, passed, ""},
		{"alias of a code", `{"op":{"call":"echo","text":"","fail":"invalid_argument"},"expect":{"ok":false,"error":{"code":"value_error","path":"${ROOT}/a/b","reason":"why"}}}`, passed, ""},
		{"any code", `{"op":{"call":"echo","text":"","fail":"session_busy"},"expect":{"ok":false,"error":{"code":"any"}}}`, passed, ""},
		{"preferred wins", `{"op":{"call":"echo","text":"x"},"expect":{"ok":false,"error":{"code":"any"}},"preferred":{"ok":true,"text":"x","note":"n"}}`, passed, ""},
		{"optional unknown call", `{"op":{"call":"other"},"expect":{"ok":true},"optional":true}`, skipped, "optional"},

		{"wrong text", `{"op":{"call":"echo","text":"x"},"expect":{"ok":true,"text":"y"}}`, failed, "text: want"},
		{"wrong ok", `{"op":{"call":"echo","text":"x"},"expect":{"ok":false,"error":{"code":"any"}}}`, failed, "ok: want"},
		{"wrong code", `{"op":{"call":"echo","text":"","fail":"session_busy"},"expect":{"ok":false,"error":{"code":"any","reason":"why","path":"other"}}}`, failed, "error.path"},
		{"wrong tree", `{"setup":[{"dir":"${ROOT}/d"}],"op":{"call":"echo","text":""},"expect":{"ok":true,"tree":{}}}`, failed, "not wanted"},
		{"unknown call", `{"op":{"call":"other"},"expect":{"ok":true}}`, failed, "does not know this call"},
		{"unknown argument", `{"op":{"call":"echo","text":"x","speed":9},"expect":{"ok":true}}`, failed, "op.speed"},
		{"argument of another type", `{"op":{"call":"echo","text":7},"expect":{"ok":true}}`, failed, "op.text"},
		{"missing argument", `{"op":{"call":"echo"},"expect":{"ok":true}}`, failed, "op.text: missing"},
		{"unknown outcome", `{"op":{"call":"echo","text":"x"},"expect":{"ok":true,"speed":1}}`, failed, "expect.speed"},
		{"unknown outcome behind preferred", `{"op":{"call":"echo","text":"x"},"expect":{"ok":true,"speed":1},"preferred":{"ok":true}}`, failed, "expect.speed"},
		{"unknown preferred", `{"op":{"call":"echo","text":"x"},"expect":{"ok":true},"preferred":{"ok":true,"speed":1}}`, failed, "preferred.speed"},
		{"outcome without ok", `{"op":{"call":"echo","text":"x"},"expect":{"text":"x"}}`, failed, "succeeds"},
		{"known outcome that this call lacks", `{"op":{"call":"echo","text":"x","fail":"session_busy"},"expect":{"ok":false,"owner":{}}}`, failed, "no such outcome"},
		{"unknown setup step", `{"setup":[{"socket":"${ROOT}/s"}],"op":{"call":"echo","text":"x"},"expect":{"ok":true}}`, failed, "exactly one of"},
		{"unknown field of a step", `{"setup":[{"dir":"${ROOT}/s","acl":"x"}],"op":{"call":"echo","text":"x"},"expect":{"ok":true}}`, failed, "setup[0].acl"},
		{"unknown owner", `{"setup":[{"dir":"${ROOT}/s","owner":"nemo"}],"op":{"call":"echo","text":"x"},"expect":{"ok":true}}`, failed, "unknown owner"},
		{"unknown requirement", `{"requires":["moon"],"op":{"call":"echo","text":"x"},"expect":{"ok":true}}`, failed, "unknown requirement"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &oneCase{area: probe.name}
			if err := json.Unmarshal([]byte(tt.json), c); err != nil {
				t.Fatal(err)
			}
			var op struct{ Call string }
			if err := json.Unmarshal(c.Op, &op); err != nil {
				t.Fatal(err)
			}
			c.call = op.Call
			r := c.run(false)
			if r.Result != tt.want || !strings.Contains(r.Why, tt.why) {
				t.Errorf("result %s (%s), want %s (%s)", r.Result, r.Why, tt.want, tt.why)
			}
			if r.Result == passed && (r.mutants == 0 || len(r.survived) > 0) {
				t.Errorf("%d mutants, survived: %v", r.mutants, r.survived)
			}
		})
	}
}

// TestPending shows that only areas and calls named as later work are pending, and
// that none is when the cases were named.
func TestPending(t *testing.T) {
	for _, tt := range []struct {
		area, call string
		strict     bool
		want       string
	}{
		{"shell", "exec_command", false, waiting},
		{"shell", "exec_command", true, failed},
		{"path_policy", "anchor", false, waiting},
		{"path_policy", "anchor", true, failed},
		{"path_policy", "no_such_call", false, failed},
		{"no_such_area", "x", false, failed},
	} {
		c := &oneCase{area: tt.area, call: tt.call, Op: json.RawMessage(`{}`), Expect: json.RawMessage(`{}`)}
		if got := c.run(tt.strict); got.Result != tt.want {
			t.Errorf("%s/%s strict=%v: %s (%s), want %s", tt.area, tt.call, tt.strict, got.Result, got.Why, tt.want)
		}
	}
}

// TestLoadCases refuses files that the runner would only half understand.
func TestLoadCases(t *testing.T) {
	const good = `{"area":"a","format":{},"cases":[{"id":"A-1","what":"w","setup":[],"op":{"call":"c"},"expect":{"ok":true},"source":"s"}]}`
	for _, tt := range []struct {
		name  string
		files map[string]string
		ok    bool
	}{
		{"good", map[string]string{"a.json": good}, true},
		{"empty folder", nil, false},
		{"unknown key of a case", map[string]string{"a.json": strings.Replace(good, `"what"`, `"whom"`, 1)}, false},
		{"unknown key of the file", map[string]string{"a.json": strings.Replace(good, `"format"`, `"norm"`, 1)}, false},
		{"id twice", map[string]string{"a.json": good, "b.json": good}, false},
		{"no call", map[string]string{"a.json": strings.Replace(good, `"call":"c"`, ``, 1)}, false},
		{"no cases", map[string]string{"a.json": `{"area":"a","format":{},"cases":[]}`}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := loadCases(dir); (err == nil) != tt.ok {
				t.Errorf("loadCases: %v, want success %v", err, tt.ok)
			}
		})
	}
}

// TestCasesDir fails where CROFT_CASES leads nowhere instead of running nothing.
func TestCasesDir(t *testing.T) {
	t.Setenv("CROFT_CASES", filepath.Join(t.TempDir(), "gone"))
	if _, named, err := casesDir(); err == nil || !named || errors.Is(err, errNoCases) {
		t.Errorf("casesDir = named %v, %v; want an error that is not errNoCases", named, err)
	}
}
