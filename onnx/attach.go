package onnx

import (
	"fmt"
	"os"

	"mm-abi.org/mm/core/mmap"
)

// Attach maps the files of the model's external data, which open opens by
// location, and makes their contents the tensors' elements, as if they were in
// the model file. The model must have passed [Model.Check] with the same files;
// ranges are checked against the current sizes of the files. [Model.Close]
// unmaps them, also after an error.
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

// attachment is a mapped file of external data.
type attachment struct {
	location string
	*mmap.Map
}

// Attached returns the locations of the files that Attach has mapped, and their
// total size.
func (m *Model) Attached() (locations []string, size int64) {
	for _, a := range m.attached {
		locations = append(locations, a.location)
		size += int64(len(a.Data))
	}
	return locations, size
}

// attach sets the elements of a tensor.
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
		return fmt.Errorf("external data of %q: bytes %d to %d exceed %q of %d bytes", t.Name, offset, offset+length, location, len(data))
	}
	t.Raw = data[offset : offset+length : offset+length]
	if t.Raw == nil {
		t.Raw = []byte{}
	}
	t.External, t.fields = nil, 1
	return nil
}
