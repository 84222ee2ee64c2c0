package modules

import (
	"encoding/json"

	"mm-abi.org/mm/abi"
)

// Export lists the files of a module in a format: the file to open, and further
// files that it needs (external data of ONNX, the rest of a CoreML package). In
// YAML it is a path, or {path, with}.
type Export struct {
	Path string   `json:"path"`
	With []string `json:"with,omitempty"`
}

// Files returns the files of the export, the entry first.
func (e Export) Files() []string { return append([]string{e.Path}, e.With...) }

// UnmarshalJSON parses a path or an object.
func (e *Export) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*e = Export{}
		return json.Unmarshal(b, &e.Path)
	}
	type plain Export
	return json.Unmarshal(b, (*plain)(e))
}

// MarshalJSON writes a path if there are no further files.
func (e Export) MarshalJSON() ([]byte, error) {
	if len(e.With) == 0 {
		return json.Marshal(e.Path)
	}
	type plain Export
	return json.Marshal(plain(e))
}

// Entry returns the path of the module's file in a format, or "".
func (m *Manifest) Entry(f abi.Format) string { return m.Export[f].Path }
