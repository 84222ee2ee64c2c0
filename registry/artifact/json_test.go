package artifact

import (
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestDecodeStrict has documents that two readers may read differently, and like ones.
func TestDecodeStrict(t *testing.T) {
	nested := func(open, inner, end string, n int) string {
		return `{"x":` + strings.Repeat(open, n) + inner + strings.Repeat(end, n) + `}`
	}
	for text, want := range map[string]string{
		`{}`: "", ` { "a" : [ ] , "b" : { } , "c":[{},[],-1.5e3,true,null,"x"]} `: "",
		"{\"a\":1,\t\"b\":2}\n":                        "",
		`{"a":1,"a":2}`:                                `key "a" twice`,
		`{"a":1,"\u0061":2}`:                           `key "a" twice`,
		`{"a\"b":1,"a\\b":2}`:                          "",
		`{"a\"b":1,"a\u0022b":2}`:                      `twice`,
		`{"x":[{"k":1},{"k":1,"l":"}","k":2}]}`:        `key "k" twice`,
		`{"x":{"a":"\\"},"y":{"a":"\"a\":1,\\\\"}}`:    "",
		`{"MediaType":"x"}`:                            `got "MediaType", want "mediaType"`,
		`{"annotations":{"MediaType":"x","Size":"1"}}`: "",
		`{"layers":[{"Size":1}]}`:                      `got "Size", want "size"`,
		`{"layers":[{"ſize":1}]}`:                      `got "ſize", want "size"`,
		`{"layers":[{"annotations":{"ſize":""}}]}`:     "",
		`{"a":1} {}`:                                   "data after the JSON document",
		`{"a":1`:                                       "unexpected",
		`{"a":}`:                                       "invalid character",
		``:                                             "EOF",
		"{\"a\":\"\xff\"}":                             "not UTF-8",
		nested("[", "1", "]", maxDepth-1):              "",
		nested("[", "1", "]", maxDepth):                "nested deeper",
		nested(`{"a":`, "1", "}", maxDepth-1):          "",
		nested(`{"a":`, "1", "}", maxDepth):            "nested deeper",
	} {
		var m ocispec.Manifest
		if err := DecodeStrict([]byte(text), &m); (err == nil) != (want == "") || err != nil && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}
