// Package tflite writes models for LiteRT (.tflite, formerly TensorFlow Lite).
//
// Files are read by onnx/htp/blob, which checks every offset.
package tflite
