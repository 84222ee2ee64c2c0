// Package tflite writes models for LiteRT (.tflite, formerly TensorFlow Lite).
//
// Files are read by onnx/htp, which checks every offset.
package tflite
