package modal

import (
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
)

// begin initializes the tensors of n from those of the same name and shape in a
// file: a checkpoint, whose names have the prefix, or the ONNX file of a
// module.
func begin(n *net.Net[float32], prefix, path string) error {
	if filepath.Ext(path) == ".onnx" {
		return onnxfile.ReadFile(n, path)
	}
	c, err := OpenCheckpoint(path)
	if err != nil {
		return err
	}
	defer c.Close()
	read := 0
	for _, w := range n.Params().Tensors() {
		if shape, ok := c.Shape(prefix + w.Name); ok && slices.Equal(shape, w.Shape) {
			if err := c.Read(prefix+w.Name, w.Data, w.Shape); err != nil {
				return err
			}
			read++
		}
	}
	if read == 0 {
		return fmt.Errorf("checkpoint %s: no tensor has a name and shape of the network", path)
	}
	return nil
}
