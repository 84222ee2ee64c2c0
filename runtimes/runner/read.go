package runner

import (
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// ReadRequest reads a request, JSON or YAML: one strict parser provides positions for
// both.
func ReadRequest(file string, in io.Reader) (req Request, err error) {
	data, err := io.ReadAll(io.LimitReader(in, schemas.MaxBytes+1))
	if err != nil {
		return req, fmt.Errorf("reading the request: %w", err)
	}
	doc, list := schemas.Load(schemas.Request, file, data)
	if err := list.Err(); err != nil {
		return req, err
	}
	return req, doc.Decode(&req)
}

// ReadGrammar reads the JSON schema of an answer.
func ReadGrammar(file string) (*grammar.Grammar, error) {
	data, err := fsx.ReadFile(file, schemas.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	g, err := grammar.New(data, grammar.Options{})
	var beyond *schema.Error
	if !errors.As(err, &beyond) {
		return g, err
	}
	var list diag.List
	for _, f := range beyond.Faults {
		list.Add(diag.SchemaSubset, diag.Pos{File: file}, f.String(), "")
	}
	return nil, list.Err()
}
