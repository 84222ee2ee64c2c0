package mcpclient

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// FuzzPin checks that the hash of a list does not depend on its order, and
// that a list with a duplicate name has no hash.
func FuzzPin(f *testing.F) {
	f.Add([]byte(`[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","description":"x"}]`))
	f.Add([]byte(`[{"name":"a"},{"name":"a"}]`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []*sdk.Tool
		if json.Unmarshal(data, &list) != nil {
			return
		}
		listed, reversed, err := Listed{}, []*sdk.Tool{}, error(nil)
		for _, tool := range list {
			reversed = append([]*sdk.Tool{tool}, reversed...)
		}
		if listed, err = pin("x", list); err != nil {
			return
		}
		if again, err := pin("x", reversed); err != nil || again.SHA256 != listed.SHA256 {
			t.Errorf("got %+v, reversed %+v, %v", listed, again, err)
		}
	})
}
