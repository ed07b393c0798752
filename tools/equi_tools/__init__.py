"""Model tool of the LAMMPS pair style equi."""

__version__ = "0.1.0"
