package api

import (
	"net/http"
	"testing"
)

// A trace context is taken whole or not at all.
func TestParentOf(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for text, want := range map[string]bool{
		"00-" + trace + "-" + span + "-01":                    true,
		"00-" + trace + "-" + span + "-00":                    true,
		"01-" + trace + "-" + span + "-01-more":               true,
		"00-" + trace + "-" + span + "-01-more":               false,
		"00-" + trace + "-" + span + "-01x":                   false,
		"ff-" + trace + "-" + span + "-01":                    false,
		"00-00000000000000000000000000000000-" + span + "-01": false,
		"00-" + trace + "-0000000000000000-01":                false,
		"00-4BF92F3577b34da6a3ce929d0e0e4736-" + span + "-01": false,
		"00-zbf92f3577b34da6a3ce929d0e0e4736-" + span + "-01": false,
		"00-" + trace + "-" + span:                            false,
		"":                                                    false,
		"00_" + trace + "-" + span + "-01":                    false,
	} {
		p := parentOf(http.Header{"Traceparent": {text}})
		if p.Known() != want || want && p.Sampled != (text[53:55] == "01") {
			t.Errorf("%q: got %+v, want a parent: %v", text, p, want)
		}
	}
}
