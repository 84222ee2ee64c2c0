// Package openvino writes models for OpenVINO: an intermediate representation of
// version 11, NAME.xml with its weights in NAME.bin.
//
// OpenVINO infers the types and shapes of a file again and ignores the declared
// ones. Package onnx/ovir compares them along every edge, and constants with their
// place in the weights.
package openvino
