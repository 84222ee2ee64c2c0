// Package compat knows which versions belong together: releases of Qualcomm's
// SDK (QAIRT) and the versions of the programming interfaces that they carry
// (sdk.csv), and releases of tools and the SDK that each is built for
// (tools.csv). Both are data with a source for each row: libraries that were
// asked, files that were read, documents.
//
// A version that nobody has seen is absent, not guessed, but for one rule that
// held in every release that was looked at: the interface of the HTP is 5.n in
// SDK 2.n.
package fit

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"

	"mm-abi.org/mm/core/htp"
)

//go:embed sdk.csv
var sdks []byte

//go:embed tools.csv
var tools []byte

// SDK is a release of QAIRT. A version that is not known is the zero Version.
type SDK struct {
	Version htp.Version // major and minor
	Core    htp.Version
	Backend htp.Version // of the HTP
	System  htp.Version // of libQnnSystem
	Blob    htp.Version // of context binaries
	Source  string
}

// Tool is a release of a tool and the SDK that it was built for.
type Tool struct {
	Name, Version string
	SDK           htp.Version
	With          string // what else it goes with
	Source        string
}

// SDKs lists the releases, oldest first.
func SDKs() []SDK {
	var out []SDK
	for _, row := range rows(sdks) {
		out = append(out, SDK{version(row[0]), version(row[1]), version(row[2]), version(row[3]), version(row[4]), row[5]})
	}
	return out
}

// Tools lists the tools' releases.
func Tools() []Tool {
	var out []Tool
	for _, row := range rows(tools) {
		out = append(out, Tool{row[0], row[1], version(row[2]), row[3], row[4]})
	}
	return out
}

// rows reads a table that is part of the program.
func rows(data []byte) [][]string {
	all, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		panic(fmt.Sprintf("compat: %v", err))
	}
	return all[1:]
}

func version(s string) htp.Version {
	if s == "" {
		return htp.Version{}
	}
	v, err := htp.ParseVersion(s)
	if err != nil {
		panic(fmt.Sprintf("compat: %v", err))
	}
	return v
}

// FindSDK returns what is known of an SDK, whatever its patch. Of a release that is
// not in the table the backend's interface alone is known, by the rule.
func FindSDK(sdk htp.Version) SDK {
	for _, s := range SDKs() {
		if s.Version.Major == sdk.Major && s.Version.Minor == sdk.Minor {
			return s
		}
	}
	s := SDK{Version: htp.Version{Major: sdk.Major, Minor: sdk.Minor}}
	if sdk.Major == 2 {
		s.Backend = htp.Version{Major: 5, Minor: sdk.Minor}
		s.Source = "rule"
	}
	return s
}
