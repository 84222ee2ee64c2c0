package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schemaFile is the ending of the names of schema files.
const schemaFile = ".schema.json"

// Kinds lists the kinds of documents, sorted.
func Kinds() []Kind {
	out := []Kind{Module, Graph, Lock, Config, Trust, Request, Train, Stage, Plan, Decoding, Preference, Improvement, Suite, Budgets, Dataset, Study, Jobs}
	slices.Sort(out)
	return out
}

// Bundle returns the schema of a kind as one document: the schemas that it refers to are
// embedded under $defs with their $id, so that references resolve without the network
// (JSON Schema 2020-12, Bundling).
func Bundle(kind Kind) ([]byte, error) {
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("unknown schema %q", kind)
	}
	root, err := schemaDocument(string(kind) + schemaFile)
	if err != nil {
		return nil, err
	}
	embedded := map[string]any{}
	if err := inline(root, string(kind)+schemaFile, embedded); err != nil {
		return nil, err
	}
	if len(embedded) > 0 {
		defs, _ := root["$defs"].(map[string]any)
		all := maps.Clone(embedded)
		maps.Copy(all, defs)
		root["$defs"] = all
	}
	data, err := json.MarshalIndent(root, "", "  ")
	return append(data, '\n'), err
}

// inline adds the files that a schema refers to, and those that they refer to.
func inline(v any, own string, into map[string]any) error {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			file, _, _ := strings.Cut(ref, "#")
			if _, done := into[file]; strings.HasSuffix(file, schemaFile) && file != own && !done {
				doc, err := schemaDocument(file)
				if err != nil {
					return err
				}
				into[file] = doc
				if err := inline(doc, own, into); err != nil {
					return err
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := inline(v[key], own, into); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := inline(e, own, into); err != nil {
				return err
			}
		}
	}
	return nil
}

func schemaDocument(file string) (doc map[string]any, err error) {
	data, err := files.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	return doc, err
}
