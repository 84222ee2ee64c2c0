package abi

const (
	MaxRef    = maxRef
	MaxName   = maxName
	MaxPath   = maxPath
	MaxTarget = maxTarget
)
