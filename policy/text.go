package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Complete returns p with the defaults that have a value written out. Tier and Floor stay empty
// where they are: which tier is the strongest is the machine's to say.
func (p Policy) Complete() Policy {
	p.Network = p.Network.OrDefault()
	p.Protected = p.ProtectedNames()
	return p
}

// Text returns p as a policy file in YAML that [Parse] reads back, with every default written out.
func (p Policy) Text() string {
	p = p.Complete()
	var b strings.Builder
	fmt.Fprintf(&b, "version: %d\n", Version)
	word := func(name, value, otherwise string) {
		if value == "" {
			fmt.Fprintf(&b, "# %s: %s\n", name, otherwise)
			return
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	word("tier", string(p.Tier), "the strongest that works on this machine, never none")
	word("floor", string(p.Floor), "any tier but none")
	word("network", string(p.Network), "")
	writeList(&b, "", "read_paths", p.ReadPaths)
	writeList(&b, "", "write_paths", p.WritePaths)
	writeList(&b, "", "hidden_paths", p.HiddenPaths)
	writeList(&b, "", "protected", p.Protected)
	if all := p.Limits.All(); len(all) > 0 {
		b.WriteString("limits:\n")
		for _, f := range limitFields {
			if v, ok := all[f.name]; ok && f.quantity == count {
				fmt.Fprintf(&b, "  %s: %s\n", f.name, v)
			} else if ok {
				fmt.Fprintf(&b, "  %s: %s\n", f.name, quote(v))
			}
		}
	} else {
		b.WriteString("limits: {}\n")
	}
	b.WriteString("system_calls:\n")
	writeList(&b, "  ", "deny", p.SystemCalls.Deny)
	writeList(&b, "  ", "allow", p.SystemCalls.Allow)
	return b.String()
}

func writeList(b *strings.Builder, indent, name string, values []string) {
	if len(values) == 0 {
		fmt.Fprintf(b, "%s%s: []\n", indent, name)
		return
	}
	fmt.Fprintf(b, "%s%s:\n", indent, name)
	for _, v := range values {
		fmt.Fprintf(b, "%s  - %s\n", indent, quote(v))
	}
}

// quote returns s as it stands in YAML: an ordinary absolute path plain, since it can be nothing
// else, and all other texts in double quotes with the escapes of JSON, which are YAML's too.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-"
	if strings.HasPrefix(s, "/") && strings.Trim(s, plain) == "" {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(fmt.Sprintf("policy: a text is no JSON: %v", err)) // it always is
	}
	return strings.TrimSuffix(b.String(), "\n")
}
