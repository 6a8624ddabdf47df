// Package document reads what people and programs write down for croft, in JSON or YAML, and
// names every fault with its line, column and place.
//
// A text is read in two steps: text to a tree of [Node], the same for both notations, and nodes
// to checked values by the methods of a [Reader], which collects what is wrong. Neither
// encoding/json nor a YAML library is asked to fill Go structs: both would take a doubled
// field without a word, and neither would say where a wrong value stands.
//
//	r := document.NewReader(document.Source{Noun: "policy", Name: "p.yaml", Limits: limits})
//	if tree := r.Parse(data); tree != nil {
//		if o, ok := r.Object(tree, nil, []string{"tier"}); ok {
//			tier = o.Required("tier")
//		}
//	}
//	faults := r.Faults()
//
// Texts may come from a stranger: [Limits] bound what one can cost. The package knows no field of
// any format; manifest and policy do.
package document
