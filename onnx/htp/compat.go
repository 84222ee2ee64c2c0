// Compatible versions are data with a source for each row (queried libraries,
// files, documents): releases of Qualcomm's SDK (QAIRT) with the versions of
// their APIs (sdk.csv), and releases of tools with the SDK that each is built
// for (tools.csv).
//
// An unseen version is absent, with one rule that held in every release
// checked: the HTP's API is 5.n in SDK 2.n.

package htp

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
)

//go:embed sdk.csv
var sdks []byte

//go:embed tools.csv
var tools []byte

// SDK is a release of QAIRT. An unknown version is the zero Version.
type SDK struct {
	Version Version // major and minor
	Core    Version
	Backend Version // of the HTP
	System  Version // of libQnnSystem
	Blob    Version // of context binaries
	Source  string
}

// Tool is a release of a tool and the SDK that it was built for.
type Tool struct {
	Name, Version string
	SDK           Version
	With          string // other compatible software
	Source        string
}

// SDKs lists the releases, oldest first.
func SDKs() []SDK {
	var out []SDK
	for _, row := range rows(sdks) {
		out = append(out, SDK{fitVersion(row[0]), fitVersion(row[1]), fitVersion(row[2]), fitVersion(row[3]), fitVersion(row[4]), row[5]})
	}
	return out
}

// Tools lists the tools' releases.
func Tools() []Tool {
	var out []Tool
	for _, row := range rows(tools) {
		out = append(out, Tool{row[0], row[1], fitVersion(row[2]), row[3], row[4]})
	}
	return out
}

// rows parses an embedded table.
func rows(data []byte) [][]string {
	all, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		panic(fmt.Sprintf("compat: %v", err))
	}
	return all[1:]
}

func fitVersion(s string) Version {
	if s == "" {
		return Version{}
	}
	v, err := ParseVersion(s)
	if err != nil {
		panic(fmt.Sprintf("compat: %v", err))
	}
	return v
}

// FindSDK returns the row of an SDK, ignoring its patch. For a release that is
// not in the table only the backend's API is set, by the rule.
func FindSDK(sdk Version) SDK {
	for _, s := range SDKs() {
		if s.Version.Major == sdk.Major && s.Version.Minor == sdk.Minor {
			return s
		}
	}
	s := SDK{Version: Version{Major: sdk.Major, Minor: sdk.Minor}}
	if sdk.Major == 2 {
		s.Backend = Version{Major: 5, Minor: sdk.Minor}
		s.Source = "rule"
	}
	return s
}
