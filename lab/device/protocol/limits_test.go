package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// Each limit is accepted, and one more is refused.
func TestLimits(t *testing.T) {
	result := func(outputs, times string) string {
		return fmt.Sprintf(`{"schema":%q,"nonce":"00","times":{"load_us":1,"infer_us":[%s]},"outputs":[%s]}`, Schema, times, outputs)
	}
	list := func(n int, item func(i int) string) string {
		var items []string
		for i := range n {
			items = append(items, item(i))
		}
		return strings.Join(items, ",")
	}
	output := func(sample, index int) string {
		return fmt.Sprintf(`{"sample":%d,"index":%d,"name":"","bytes":0}`, sample, index)
	}
	small := result("", "1")
	for name, try := range map[string]func(over int) error{
		"maxResult": func(over int) error {
			_, err := Parse([]byte(small + strings.Repeat(" ", maxResult-len(small)+over)))
			return err
		},
		"maxOutputs": func(over int) error {
			r := Result{Schema: Schema}
			for i := range maxOutputs + over {
				r.Outputs = append(r.Outputs, Output{Sample: i / 100, Index: i % 100})
			}
			return r.check()
		},
		"maxTimes": func(over int) error {
			return Result{Schema: Schema, Times: Times{Infer: make([]int64, maxTimes+over)}}.check()
		},
		"index": func(over int) error { _, err := Parse([]byte(result(output(0, maxOutputs-1+over), ""))); return err },
		"MaxSamples": func(over int) error {
			_, err := Parse([]byte(result(list(2, func(i int) string { return output(i*(MaxSamples-1+over), 0) }), "")))
			return err
		},
		"repeat": func(over int) error {
			_, err := ParseCall(strings.Fields(fmt.Sprintf("p run --context c --inputs i --outputs o --nonce 1 --repeat %d", MaxSamples+over)))
			return err
		},
	} {
		if err := try(0); err != nil {
			t.Errorf("%s: at the limit: %v", name, err)
		}
		if try(1) == nil {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}
