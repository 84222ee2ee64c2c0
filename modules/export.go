package modules

import (
	"encoding/json"

	"mm-abi.org/mm/abi"
)

// Export is what a module has in one format: the file that is opened, and the
// files that it needs beside it (external data of ONNX, the rest of a CoreML
// package). In YAML it is a path, or {path, with}.
type Export struct {
	Path string   `json:"path"`
	With []string `json:"with,omitempty"`
}

// Files lists the export's files, the entry first.
func (e Export) Files() []string { return append([]string{e.Path}, e.With...) }

// UnmarshalJSON reads a path, or an object.
func (e *Export) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*e = Export{}
		return json.Unmarshal(b, &e.Path)
	}
	type plain Export
	return json.Unmarshal(b, (*plain)(e))
}

// MarshalJSON writes a path where that says all.
func (e Export) MarshalJSON() ([]byte, error) {
	if len(e.With) == 0 {
		return json.Marshal(e.Path)
	}
	type plain Export
	return json.Marshal(plain(e))
}

// Entry is the path of the module's file in a format; "" where it has none.
func (m *Manifest) Entry(f abi.Format) string { return m.Export[f].Path }
