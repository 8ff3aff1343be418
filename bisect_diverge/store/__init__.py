"""The HDF5 file of a recorded rank; the only room that knows h5py. Specified in docs/file-format.md."""
