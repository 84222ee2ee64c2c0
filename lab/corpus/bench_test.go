package corpus

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/lab/corpus/pii"
)

// benchmarkBlock returns a block of JSON lines of random words, some with
// personal data.
func benchmarkBlock() block {
	r := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	for n := 0; b.Len() < blockSize; n++ {
		b.WriteString(`{"text": "`)
		for i := range 60 + r.IntN(180) {
			if i == 5 && n%10 == 0 {
				b.WriteString("mail bob.smith@example.com on 2024-03-05 at 10:30, 42 of 1,200 items ")
			}
			for range 2 + r.IntN(7) {
				b.WriteByte(byte('a' + r.IntN(26)))
			}
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, `end.", "lang": "en", "n": %d}`+"\n", n)
	}
	return block{first: 1, data: b.Bytes()}
}

func BenchmarkProcess(b *testing.B) {
	for name, near := range map[string]bool{"exact": false, "near": true} {
		b.Run(name, func(b *testing.B) {
			m := &Manifest{Sources: []Source{{ID: "s", Path: "s.jsonl"}}, Where: `lang == "en"`, PII: &PII{Action: Scrub, Score: pii.DefaultScore}}
			m.setDefaults()
			r, err := newReader(m, &m.Sources[0])
			if err != nil {
				b.Fatal(err)
			}
			w := &worker{m: m, readers: []*reader{r}, pii: pii.New(nil, pii.DefaultScore)}
			if near {
				w.hasher = NewMinHasher(5)
			}
			one := benchmarkBlock()
			b.SetBytes(int64(len(one.data)))
			b.ReportAllocs()
			for b.Loop() {
				if out := w.process(one); len(out.faults) > 0 {
					b.Fatal(out.faults)
				}
			}
		})
	}
}
