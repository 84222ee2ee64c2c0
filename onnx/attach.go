package onnx

import (
	"fmt"
	"os"

	"mm-abi.org/mm/core/mmap"
)

// Attach maps the files of the model's external data, which open gives by
// location, and makes their bytes the tensors' own, as if they had been in the
// file. The model must have passed [Model.Check] with the same files; ranges
// are held to the sizes that the files have now. [Model.Close] gives the
// mappings back, after an error too.
func (m *Model) Attach(open func(location string) (*os.File, error)) error {
	maps := make(map[string][]byte)
	var failed error
	m.EachTensor(func(t *Tensor) {
		if t.External == nil || failed != nil {
			return
		}
		failed = m.attach(t, maps, open)
	})
	return failed
}

// attachment is a file that was mapped for its elements.
type attachment struct {
	location string
	*mmap.Map
}

// Attached lists the locations of the files that Attach has mapped, and the
// bytes of all of them.
func (m *Model) Attached() (locations []string, size int64) {
	for _, a := range m.attached {
		locations = append(locations, a.location)
		size += int64(len(a.Data))
	}
	return locations, size
}

// attach gives a tensor its bytes.
func (m *Model) attach(t *Tensor, maps map[string][]byte, open func(string) (*os.File, error)) error {
	location := t.External.Location()
	data, ok := maps[location]
	if !ok {
		f, err := open(location)
		if err != nil {
			return fmt.Errorf("external data of %q: %w", t.Name, err)
		}
		defer f.Close()
		mapped, err := mmap.File(f)
		if err != nil {
			return fmt.Errorf("external data of %q: %w", t.Name, err)
		}
		m.attached = append(m.attached, attachment{location, mapped})
		data = mapped.Data
		maps[location] = data
	}
	offset, length, err := t.Range()
	if err != nil {
		return fmt.Errorf("external data of %q: %w", t.Name, err)
	}
	if offset > int64(len(data)) || length > int64(len(data))-offset {
		return fmt.Errorf("external data of %q: bytes %d to %d of %q, which has %d", t.Name, offset, offset+length, location, len(data))
	}
	t.Raw = data[offset : offset+length : offset+length]
	if t.Raw == nil {
		t.Raw = []byte{}
	}
	t.External, t.fields = nil, 1
	return nil
}
