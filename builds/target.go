package builds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/abi"
)

// Target describes how one target is shipped.
type Target struct {
	Platform string   // os/arch; "": by the target's name
	Exports  []Export // by format, in the order of the alphabet
}

// Export describes a target's files of one format.
type Export struct {
	Format    abi.Format
	Modules   []string  // names. Nil: the core and its draft
	Precision string    // of the weights, in the exporter's words. "": as they are
	KV        abi.DType // of the KV cache. "": that of the graph
	Method    string    // how weights are rounded. "": as the exporter does
	// Imatrix and Calibration are files, by their paths from the graph's
	// folder: the importance matrix, and a text that models read. "": none.
	Imatrix, Calibration string
	Options              json.RawMessage // an object only the exporter understands; nil for none
	Ptr                  string          // JSON pointer in the graph; "": not in the graph

	precisionKey string // "quant" or "core"
	twice        bool   // both are present
	list         bool   // written as a list of names
}

// Takes reports whether the export is for the module name of type t.
func (e Export) Takes(name string, t abi.ModuleType) bool {
	if e.Modules == nil {
		return t == abi.Core || t == abi.DraftCore
	}
	return slices.Contains(e.Modules, name)
}

// PrecisionPtr is the JSON pointer of the precision.
func (e Export) PrecisionPtr() string { return e.Ptr + "/" + e.precisionKey }

// ModulePtr is the JSON pointer of the i-th name of Modules.
func (e Export) ModulePtr(i int) string {
	if e.list {
		return fmt.Sprintf("%s/%d", e.Ptr, i)
	}
	return fmt.Sprintf("%s/modules/%d", e.Ptr, i)
}

// UnmarshalJSON reads a list of modules, or an object.
func (e *Export) UnmarshalJSON(b []byte) error {
	e.precisionKey = "quant"
	if len(b) > 0 && b[0] == '[' {
		e.list = true
		return json.Unmarshal(b, &e.Modules)
	}
	var v struct {
		Quant   string          `json:"quant"`
		Core    string          `json:"core"` // the playbook's word in executorch and coreml
		KV      abi.DType       `json:"kv"`
		Modules []string        `json:"modules"`
		Method  string          `json:"method"`
		Imatrix string          `json:"imatrix"`
		Text    string          `json:"calibration"`
		Options json.RawMessage `json:"options"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	e.Precision, e.KV, e.Modules, e.Options = v.Quant, v.KV, v.Modules, v.Options
	e.Method, e.Imatrix, e.Calibration = v.Method, v.Imatrix, v.Text
	if v.Core != "" {
		e.Precision, e.precisionKey, e.twice = v.Core, "core", v.Quant != ""
	}
	return nil
}

// Export returns the target's export of a format.
func (t Target) Export(f abi.Format) (Export, bool) {
	i := slices.IndexFunc(t.Exports, func(e Export) bool { return e.Format == f })
	if i < 0 {
		return Export{}, false
	}
	return t.Exports[i], true
}

// UnmarshalJSON reads platform, and every other key as a format.
func (t *Target) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*t = Target{}
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		if key == "platform" {
			if err := json.Unmarshal(raw[key], &t.Platform); err != nil {
				return err
			}
			continue
		}
		e := Export{Format: abi.Format(key)}
		if err := json.Unmarshal(raw[key], &e); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		t.Exports = append(t.Exports, e)
	}
	return nil
}
