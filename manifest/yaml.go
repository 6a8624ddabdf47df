package manifest

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/croftdev/croft/internal/fault"
)

// parseYAML parses the one YAML document that data holds. Of YAML a manifest has
// mappings with scalar keys, sequences, scalars, anchors and aliases; tags and
// merge keys are refused: they give a value a meaning that its place does not show.
func parseYAML(data []byte) (*node, *treeError) {
	tokens, err := guarded(func() (token.Tokens, error) { return lexer.Tokenize(string(data)), nil })
	if err != nil {
		return nil, yamlError(err)
	}
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := guarded(func() (*ast.File, error) { return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) })
	if err != nil {
		return nil, yamlError(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case doc.Body.Type() == ast.CommentType:
		case body != nil:
			return nil, syntaxError(nodePosition(doc.Body), "more than one document in the manifest")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, syntaxError(position{1, 1}, "the manifest is empty; the smallest one is {}")
	}
	r := yamlReader{anchors: map[string]*node{}}
	return r.value(body)
}

// errParserPanic is what a panic of the YAML library becomes.
var errParserPanic = errors.New("the YAML parser cannot read this text")

// guarded calls fn of the YAML library and turns a panic into an error. The library
// has panicked on texts that are not YAML (issues 191, 439 and 540 of
// goccy/go-yaml), and a manifest may come from a stranger: one such text must not
// end a server. It does not stop a stack overflow: checkTokens does.
func guarded[T any](fn func() (T, error)) (out T, err error) {
	defer func() {
		if recover() != nil {
			err = errParserPanic
		}
	}()
	return fn()
}

// yamlError returns the tree error for an error of the YAML parser.
func yamlError(err error) *treeError {
	var located interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &located) {
		return syntaxError(position{1, 1}, "not YAML: %v", err)
	}
	at := position{1, 1}
	if tok := located.GetToken(); tok != nil {
		at = tokenPosition(tok)
	}
	return syntaxError(at, "not YAML: %s", located.GetMessage())
}

// checkTokens refuses what would overrun the parser, which calls itself for each
// level: a text of a million "[" ends a Go program with a stack overflow, which no
// recover can stop. The depth it counts is an upper bound of the real one over two.
func checkTokens(tokens token.Tokens) *treeError {
	if len(tokens) > MaxYAMLTokens {
		return &treeError{
			tokenPosition(tokens[MaxYAMLTokens]), fault.LimitExceeded, "limit",
			fmt.Sprintf("the manifest has more than %d tokens of YAML; write it as JSON", MaxYAMLTokens),
		}
	}
	var (
		columns []int // of the open block levels, growing
		flow    int   // open "[" and "{"
		opens   bool  // the token before may begin a level in its line
		line    int
	)
	for _, tok := range tokens {
		at := tokenPosition(tok)
		if tok.Type == token.InvalidType {
			return syntaxError(at, "not YAML: %s", tok.Error)
		}
		if flow == 0 && at.line != line {
			for len(columns) > 0 && columns[len(columns)-1] > at.column {
				columns = columns[:len(columns)-1]
			}
			opens = true
		}
		if flow == 0 && opens && (len(columns) == 0 || columns[len(columns)-1] < at.column) {
			columns = append(columns, at.column)
		}
		line = at.line
		opens = false
		switch tok.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType,
			token.AnchorType, token.TagType, token.AliasType, token.MergeKeyType:
			opens = true
		}
		if err := (weight{height: flow + len(columns)}).check(at); err != nil {
			return err
		}
	}
	return nil
}

// yamlReader builds the tree of a YAML document.
type yamlReader struct {
	anchors map[string]*node
	total   weight
}

// value returns the tree of a YAML node.
//
// An alias becomes the very node that its anchor became, and is counted as if it
// were written out: ten lines that double ten times are refused before anything
// is expanded ("billion laughs"). An alias inside its own anchor finds nothing.
func (r *yamlReader) value(n ast.Node) (*node, *treeError) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		value, err := r.value(n.Value)
		if err == nil {
			r.anchors[n.Name.String()] = value
		}
		return value, err
	case *ast.AliasNode:
		value, ok := r.anchors[n.Value.String()]
		if !ok {
			return nil, syntaxError(nodePosition(n), "the alias *%s has no anchor before it", n.Value.String())
		}
		return value, r.count(nodePosition(n), value.weight)
	}
	out := &node{at: nodePosition(n), weight: weight{nodes: 1, height: 1}}
	err := r.fill(out, n)
	if err != nil {
		return nil, err
	}
	out.weight.bytes += len(out.text)
	return out, r.count(out.at, weight{nodes: 1, bytes: len(out.text), height: out.weight.height})
}

// count adds to what the document costs and checks it.
func (r *yamlReader) count(at position, w weight) *treeError {
	r.total.nodes += w.nodes
	r.total.bytes += w.bytes
	r.total.height = max(r.total.height, w.height)
	return r.total.check(at)
}

// fill gives out the kind and content of n.
func (r *yamlReader) fill(out *node, n ast.Node) *treeError {
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.BoolNode:
		out.kind, out.text = boolean, n.Token.Value
		return nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = number, n.GetToken().Value
		return nil
	case *ast.StringNode:
		out.kind, out.text, out.plain = text, n.Value, n.Token.Type == token.StringType
		return nil
	case *ast.LiteralNode:
		out.kind, out.text = text, n.Value.Value
		return nil
	case *ast.SequenceNode:
		out.kind = list
		return r.sequence(out, n.Values)
	case *ast.MappingNode:
		out.kind = object
		return r.mapping(out, n.Values)
	case *ast.MappingValueNode:
		out.kind = object
		return r.mapping(out, []*ast.MappingValueNode{n})
	case *ast.TagNode:
		return syntaxError(out.at, "tags such as %s have no place in a manifest", n.Start.Value)
	default:
		return syntaxError(out.at, "a YAML %s has no place in a manifest", n.Type())
	}
}

// sequence gives out its items.
func (r *yamlReader) sequence(out *node, values []ast.Node) *treeError {
	for _, v := range values {
		item, err := r.value(v)
		if err != nil {
			return err
		}
		out.weight.add(item.weight)
		out.items = append(out.items, item)
	}
	return nil
}

// mapping gives out its fields.
func (r *yamlReader) mapping(out *node, values []*ast.MappingValueNode) *treeError {
	for _, v := range values {
		name, err := keyName(v.Key)
		if err != nil {
			return err
		}
		value, err := r.value(v.Value)
		if err != nil {
			return err
		}
		at := nodePosition(v.Key)
		out.weight.add(value.weight)
		out.weight.bytes += len(name)
		if err := r.count(at, weight{bytes: len(name)}); err != nil {
			return err
		}
		out.fields = append(out.fields, field{name, at, value})
	}
	return nil
}

// keyName returns the name that a key gives its field: its text as it stands, so
// that the key 010 names "010" and the key yes names "yes".
func keyName(key ast.MapKeyNode) (string, *treeError) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, nil
	case *ast.LiteralNode:
		return key.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return key.GetToken().Value, nil
	case *ast.MappingKeyNode:
		if inner, ok := key.Value.(ast.MapKeyNode); ok {
			if _, again := inner.(*ast.MappingKeyNode); !again {
				return keyName(inner)
			}
		}
	case *ast.MergeKeyNode:
		return "", syntaxError(nodePosition(key), "merge keys (<<) have no place in a manifest; write the fields out")
	}
	return "", syntaxError(nodePosition(key), "a key is not plain text but a YAML %s", key.Type())
}

// nodePosition returns where a YAML node begins.
func nodePosition(n ast.Node) position {
	switch n := n.(type) {
	case nil:
		return position{1, 1}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return nodePosition(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return nodePosition(n.Key)
	}
	return tokenPosition(n.GetToken())
}

// tokenPosition returns where a YAML token begins.
func tokenPosition(tok *token.Token) position {
	if tok == nil || tok.Position == nil {
		return position{1, 1}
	}
	return position{max(tok.Position.Line, 1), max(tok.Position.Column, 1)}
}
