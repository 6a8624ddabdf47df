package document

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/croftdev/croft/internal/fault"
)

// parseYAML parses the one YAML document that data holds. Of YAML it takes
// mappings with scalar keys, sequences, scalars, anchors and aliases; tags and
// merge keys are refused: they give a value a meaning that its place does not show.
func parseYAML(data []byte, o Source) (*Node, *problem) {
	tokens, err := guarded(func() (token.Tokens, error) { return lexer.Tokenize(string(data)), nil })
	if err != nil {
		return nil, yamlError(err)
	}
	if err := checkTokens(tokens, o); err != nil {
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
			return nil, syntaxError(nodePosition(doc.Body), "more than one document in the %s", o.Noun)
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, syntaxError(Position{1, 1}, "the %s is empty; the smallest one is {}", o.Noun)
	}
	r := yamlReader{src: o, anchors: map[string]*Node{}}
	return r.value(body)
}

// errParserPanic is what a panic of the YAML library becomes.
var errParserPanic = errors.New("the YAML parser cannot read this text")

// guarded calls fn of the YAML library and turns a panic into an error. The library
// has panicked on texts that are not YAML (issues 191, 439 and 540 of
// goccy/go-yaml), and a text may come from a stranger: one such text must not
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
func yamlError(err error) *problem {
	var located interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &located) {
		return syntaxError(Position{1, 1}, "not YAML: %v", err)
	}
	at := Position{1, 1}
	if tok := located.GetToken(); tok != nil {
		at = tokenPosition(tok)
	}
	return syntaxError(at, "not YAML: %s", located.GetMessage())
}

// checkTokens refuses what would overrun the parser, which calls itself for each
// level: a text of a million "[" ends a Go program with a stack overflow, which no
// recover can stop. The depth it counts is an upper bound of the real one over two.
func checkTokens(tokens token.Tokens, o Source) *problem {
	if limit := o.Limits.YAMLTokens; len(tokens) > limit {
		return &problem{
			tokenPosition(tokens[limit]), fault.LimitExceeded, "limit",
			fmt.Sprintf("the %s has more than %d tokens of YAML; write it as JSON", o.Noun, limit),
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
		if flow == 0 && at.Line != line {
			for len(columns) > 0 && columns[len(columns)-1] > at.Column {
				columns = columns[:len(columns)-1]
			}
			opens = true
		}
		if flow == 0 && opens && (len(columns) == 0 || columns[len(columns)-1] < at.Column) {
			columns = append(columns, at.Column)
		}
		line = at.Line
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
		if err := o.check(Weight{Height: flow + len(columns)}, at); err != nil {
			return err
		}
	}
	return nil
}

// yamlReader builds the tree of a YAML document.
type yamlReader struct {
	src     Source
	anchors map[string]*Node
	total   Weight
}

// value returns the tree of a YAML node.
//
// An alias becomes the very node that its anchor became, and is counted as if it
// were written out: ten lines that double ten times are refused before anything
// is expanded ("billion laughs"). An alias inside its own anchor finds nothing.
func (r *yamlReader) value(n ast.Node) (*Node, *problem) {
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
	out := &Node{At: nodePosition(n), weight: Weight{Nodes: 1, Height: 1}}
	err := r.fill(out, n)
	if err != nil {
		return nil, err
	}
	out.weight.Bytes += len(out.Text)
	return out, r.count(out.At, Weight{Nodes: 1, Bytes: len(out.Text), Height: out.weight.Height})
}

// count adds to what the document costs and checks it.
func (r *yamlReader) count(at Position, w Weight) *problem {
	r.total.Nodes += w.Nodes
	r.total.Bytes += w.Bytes
	r.total.Height = max(r.total.Height, w.Height)
	return r.src.check(r.total, at)
}

// fill gives out the kind and content of n.
func (r *yamlReader) fill(out *Node, n ast.Node) *problem {
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.BoolNode:
		out.Kind, out.Text = Boolean, n.Token.Value
		return nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = Number, n.GetToken().Value
		return nil
	case *ast.StringNode:
		out.Kind, out.Text, out.plain = Text, n.Value, n.Token.Type == token.StringType
		return nil
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, n.Value.Value
		return nil
	case *ast.SequenceNode:
		out.Kind = List
		return r.sequence(out, n.Values)
	case *ast.MappingNode:
		out.Kind = Object
		return r.mapping(out, n.Values)
	case *ast.MappingValueNode:
		out.Kind = Object
		return r.mapping(out, []*ast.MappingValueNode{n})
	case *ast.TagNode:
		return syntaxError(out.At, "tags such as %s have no place in a %s", n.Start.Value, r.src.Noun)
	default:
		return syntaxError(out.At, "a YAML %s has no place in a %s", n.Type(), r.src.Noun)
	}
}

// sequence gives out its items.
func (r *yamlReader) sequence(out *Node, values []ast.Node) *problem {
	for _, v := range values {
		item, err := r.value(v)
		if err != nil {
			return err
		}
		out.weight.Add(item.weight)
		out.Items = append(out.Items, item)
	}
	return nil
}

// mapping gives out its fields.
func (r *yamlReader) mapping(out *Node, values []*ast.MappingValueNode) *problem {
	for _, v := range values {
		name, err := r.keyName(v.Key)
		if err != nil {
			return err
		}
		value, err := r.value(v.Value)
		if err != nil {
			return err
		}
		at := nodePosition(v.Key)
		out.weight.Add(value.weight)
		out.weight.Bytes += len(name)
		if err := r.count(at, Weight{Bytes: len(name)}); err != nil {
			return err
		}
		out.Fields = append(out.Fields, Field{name, at, value})
	}
	return nil
}

// keyName returns the name that a key gives its field: its text as it stands, so
// that the key 010 names "010" and the key yes names "yes".
func (r *yamlReader) keyName(key ast.MapKeyNode) (string, *problem) {
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
				return r.keyName(inner)
			}
		}
	case *ast.MergeKeyNode:
		return "", syntaxError(nodePosition(key), "merge keys (<<) have no place in a %s; write the fields out", r.src.Noun)
	}
	return "", syntaxError(nodePosition(key), "a key is not plain text but a YAML %s", key.Type())
}

// nodePosition returns where a YAML node begins.
func nodePosition(n ast.Node) Position {
	switch n := n.(type) {
	case nil:
		return Position{1, 1}
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
func tokenPosition(tok *token.Token) Position {
	if tok == nil || tok.Position == nil {
		return Position{1, 1}
	}
	return Position{max(tok.Position.Line, 1), max(tok.Position.Column, 1)}
}
