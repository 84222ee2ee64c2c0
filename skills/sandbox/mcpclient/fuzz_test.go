package mcpclient

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The hash of a list does not depend on the order that a server lists its tools
// in, and a list with one name twice has none.
func FuzzPin(f *testing.F) {
	f.Add([]byte(`[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","description":"x"}]`))
	f.Add([]byte(`[{"name":"a"},{"name":"a"}]`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []*sdk.Tool
		if json.Unmarshal(data, &list) != nil {
			return
		}
		there, back, err := Listed{}, []*sdk.Tool{}, error(nil)
		for _, tool := range list {
			back = append([]*sdk.Tool{tool}, back...)
		}
		if there, err = pin("x", list); err != nil {
			return
		}
		if again, err := pin("x", back); err != nil || again.SHA256 != there.SHA256 {
			t.Errorf("%+v, backwards %+v, %v", there, again, err)
		}
	})
}
