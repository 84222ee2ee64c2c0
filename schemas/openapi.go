package schemas

import (
	_ "embed"
	"fmt"
	"sync"

	"gopkg.in/yaml.v3"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the HTTP API of mm serve, as values that encoding/json
// encodes. It is shared and must not be modified.
var OpenAPI = sync.OnceValues(func() (map[string]any, error) {
	doc := map[string]any{}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	return doc, nil
})
