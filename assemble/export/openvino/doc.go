// Package openvino writes and reads models for OpenVINO: an intermediate
// representation of version 11, NAME.xml with its weights in NAME.bin.
//
// OpenVINO infers the types and shapes of a file again and ignores those that it
// declares; [Read] compares them along every edge, and constants with their place
// in the weights.
package openvino
