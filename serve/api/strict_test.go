package api_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"mm-abi.org/mm/serve/api"
)

// TestStrict reads JSON that parsers read differently.
func TestStrict(t *testing.T) {
	type inner struct {
		Text string  `json:"text"`
		N    *int    `json:"n"`
		F    float64 `json:"f"`
		IDs  []short `json:"ids"`
	}
	type value struct {
		inner
		List []inner         `json:"list"`
		Map  map[string]int  `json:"map"`
		Raw  json.RawMessage `json:"raw"`

		Plain int
	}
	for body, want := range map[string]string{
		`{"text":"\ud83d\ude00 \\ud800 \u00e9"}`:                         `{"text":"😀 \\ud800 é"}`,
		`{"n":1.0,"f":1.0,"list":[{"n":2e2},{"n":-30.00e-1}]}`:           `{"n":1,"f":1.0,"list":[{"n":200},{"n":-3}]}`,
		`{"map":{"Text":10E-1,"text":0.0e9},"raw":{"n":1.0,"N":[1.50]}}`: `{"map":{"Text":1,"text":0},"raw":{"n":1.0,"N":[1.50]}}`,
		`{"Plain":3.0}`: `{"Plain":3}`,
		` { "ids" : [ 1.0 , 2 ] , "other" : [ false , true , null ] } `: `{"ids":[1,2]}`,
	} {
		var got, expected value
		if err := api.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: got %+v, want %+v", body, got, expected)
		}
	}
	for body, want := range map[string]string{
		`{"Text":"a"}`: `the body: got the key "Text", want "text"`,
		`{"text":"a","list":[{},{"ſ":0,"Ids":[]}]}`: `list[1]: got the key "Ids", want "ids"`,
		`{"li\u017ft":[]}`:                          `the body: got the key "liſt", want "list"`,
		`{"raw":{"x":[1,{"a":1,"\u0061":2}]}}`:      `raw.x[1]: got the key "a" twice`,
		`{"list":[{"text":"\ud800"}]}`:              `list[0].text: half of a surrogate pair: \ud800`,
		`{"raw":"\udc00\ud800"}`:                    `raw: half of a surrogate pair: \udc00`,
		`{"raw":["\uD800\u0041"]}`:                  `raw[0]: half of a surrogate pair: \uD800`,
		`{"\udfff":1}`:                              `the body: half of a surrogate pair: \udfff`,
		`{"text":"\ud800\ndc00"}`:                   `text: half of a surrogate pair: \ud800`,
		`{"text":"\ud800xudc00"}`:                   `text: half of a surrogate pair: \ud800`,
		`{"plain":1}`:                               `the body: got the key "plain", want "Plain"`,
		`{"n":1e20}`:                                "number 100000000000000000000", // mostDigits
		`{"n":1e21}`:                                "number 1e21",
		`{"n":1.5}`:                                 "number 1.5",
		`{"n":1e400}`:                               "number 1e400",
		`{"n":1e-1}`:                                "number 1e-1",
		`{"n":1.000000000000000000001}`:             "number 1.0",
	} {
		if err := api.Unmarshal([]byte(body), &value{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

// short is an integer that is not a byte of base64.
type short uint16

// TestStrictRoutes sends such JSON to each route of a wire format.
func TestStrictRoutes(t *testing.T) {
	s, _ := world(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody("hi", `,"max_tokens":3.0`), "/v1/completions": `{"prompt":[5.0],"max_tokens":1e1}`,
		"/v1/responses": `{"input":"hi","max_output_tokens":3.0}`, "/api/chat": `{"messages":[{"role":"user","content":"hi"}],"options":{"num_predict":3.0}}`,
		"/v1/messages": `{"messages":[{"role":"user","content":"hi"}],"max_tokens":3.0}`,
	} {
		if w := do(t, s, request("POST", path, body)); w.Code != http.StatusOK {
			t.Errorf("%s %s: got %d %s", path, body, w.Code, w.Body)
		}
		for _, bad := range []string{strings.Replace(body, "{", `{"Model":"m",`, 1), strings.Replace(body, "{", `{"x":"\udead",`, 1)} {
			if w := do(t, s, request("POST", path, bad)); w.Code != http.StatusBadRequest {
				t.Errorf("%s %s: got %d %s", path, bad, w.Code, w.Body)
			}
		}
	}
	for _, body := range []string{
		chatBody("hi", `,"tool_choice":{"type":"function","function":{"Name":"w"}},"tools":[{"type":"function","function":{"name":"w"}}]`),
		`{"messages":[{"role":"user","content":[{"type":"text","Text":"hi"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"URL":"data:image/png;base64,AA=="}}]}]}`,
	} {
		if w := do(t, s, request("POST", "/v1/chat/completions", body)); w.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
		}
	}
}
