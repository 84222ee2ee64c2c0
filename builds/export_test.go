package builds

const MaxAssembly = maxAssembly
