// Package catalog embeds the reference modules of this repository.
package catalog

import "embed"

// reference holds the reference modules, so that mm demo needs no checkout.
//
//go:embed */*.yaml */README.md */*.gguf */*.onnx */golden/* */*.png
var reference embed.FS

// Reference returns the folders of the reference modules.
func Reference() embed.FS { return reference }
