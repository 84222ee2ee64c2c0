package qnnfile

import (
	"bytes"
	"fmt"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx/htp"
)

// maxChips is the size limit of a user's table of chips, in bytes.
const maxChips = 1 << 20

// Chips returns the table of chips: the rows of the file at path, if any, followed
// by the built-in ones.
func Chips(path string) (htp.Chips, error) {
	if path == "" {
		return htp.KnownChips(), nil
	}
	data, err := fsx.ReadFile(path, maxChips)
	if err != nil {
		return nil, err
	}
	custom, err := htp.ReadChips(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return append(custom, htp.KnownChips()...), nil
}

// Chip is a row of the table of chips.
type Chip struct {
	Name   string `json:"soc"`
	Model  uint32 `json:"model"`
	Arch   string `json:"arch"`
	VTCM   uint32 `json:"vtcm,omitempty"` // bytes
	Source string `json:"source"`
}

// ChipViews converts a table.
func ChipViews(chips htp.Chips) []Chip {
	out := []Chip{}
	for _, c := range chips {
		out = append(out, Chip{c.Name, c.Model, c.Arch.String(), c.VTCM, c.Source})
	}
	return out
}

// Versions holds the compatible versions.
type Versions struct {
	SDKs  []SDK  `json:"sdks"`
	Tools []Tool `json:"tools"`
}

// SDK is a release of QAIRT; unknown versions are omitted.
type SDK struct {
	SDK     string `json:"sdk"`
	Core    string `json:"core_api,omitempty"`
	Backend string `json:"backend_api,omitempty"`
	System  string `json:"system,omitempty"`
	Blob    string `json:"blob,omitempty"`
	Source  string `json:"source"`
}

// Tool is a release of a tool with its SDK.
type Tool struct {
	Tool    string `json:"tool"`
	Version string `json:"version"`
	SDK     string `json:"sdk"`
	With    string `json:"with,omitempty"`
	Source  string `json:"source"`
}

// Compat returns the table of versions.
func Compat() Versions {
	shown := func(v htp.Version) string {
		if v == (htp.Version{}) {
			return ""
		}
		return v.String()
	}
	out := Versions{SDKs: []SDK{}, Tools: []Tool{}}
	for _, s := range htp.SDKs() {
		out.SDKs = append(out.SDKs, SDK{fmt.Sprintf("%d.%d", s.Version.Major, s.Version.Minor), shown(s.Core), shown(s.Backend), shown(s.System), shown(s.Blob), s.Source})
	}
	for _, t := range htp.Tools() {
		out.Tools = append(out.Tools, Tool{t.Name, t.Version, t.SDK.String(), t.With, t.Source})
	}
	return out
}
