package htptest

import (
	"archive/zip"
	"bytes"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// DLC writes a container with a graph of that name and, if not empty, a
// context.
func DLC(graph string, context []byte) []byte {
	w := &writer{b: flatbuffers.NewBuilder(256)}
	name := w.text(graph)
	graphs := w.offsets([]flatbuffers.UOffsetT{w.table(field{4, 0, name})})
	w.b.FinishWithFileIdentifier(w.table(field{0, 0, graphs}), []byte("NETD"))
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range []struct {
		name string
		data []byte
	}{
		{"dlc.metadata.history.2.3.0", []byte(`{"dlcGenerationInfo": [{"converterCommand": {"tool": "qairt-converter", "converterVersion": "2.47.0.260601114230"}}]}`)},
		{"dlc.metadata2.3.0", []byte(`{"header": {"version": {"major": 2, "minor": 3, "patch": 0}}}`)},
		{"model", append([]byte{0xd5, 0x0a, 4, 0, 1, 0, 0, 0}, w.b.FinishedBytes()...)},
		{"model.params.bin", make([]byte, 768)},
		{"htp.bin0", context},
	} {
		if e.data == nil {
			continue
		}
		to, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(e.data)
		}
		if err != nil {
			panic(fmt.Sprintf("qnntest: %v", err)) // a bytes.Buffer does not fail
		}
	}
	if err := z.Close(); err != nil {
		panic(fmt.Sprintf("qnntest: %v", err))
	}
	return out.Bytes()
}
