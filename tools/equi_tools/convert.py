"""`equi convert`: a trainer's file -> one .equi file."""

import datetime
from pathlib import Path

from . import __version__, equi_file, self_check
from .errors import EquiError
from .progress import Steps


def convert(source, output, modality=None, elements=None, ignore_keys=(), licence=None, citation=None, quiet=False):
    """Writes `output` from a checkpoint (name or file); returns its document."""
    if not Path(output).absolute().parent.is_dir():
        raise EquiError(f"cannot write {output}: no such folder")
    with Steps(4, quiet) as steps:
        steps.next(f"reading {source}")
        from .frameworks import sevenn_checkpoint

        checkpoint = sevenn_checkpoint.load(source, ignore_keys)
        from .frameworks import sevenn_convert, sevenn_oracle

        steps.next(
            f"translating {checkpoint.config['num_convolution_layer']} layers, {len(checkpoint.elements)} elements"
        )
        try:
            body, tensors = sevenn_convert.convert(checkpoint, modality, elements)
        except EquiError as error:
            raise EquiError(str(error) if str(source) in str(error) else f"{source}: {error}") from error
        steps.next("computing self-check values with sevenn in float64")
        calculator = sevenn_oracle.float64_calculator(checkpoint, modality)
        checks = self_check.entries(body["elements"], body["cutoff"], calculator)
        document = {
            "format": equi_file.FORMAT_NAME,
            "format_version": equi_file.FORMAT_VERSION,
            "framework": {"name": "sevenn", "version": sevenn_checkpoint.import_sevenn().__version__},
            **body,
            "provenance": _provenance(checkpoint, modality, licence, citation),
            "units": {"energy": "eV", "length": "Angstrom"},
            "self_check": checks,
        }
        steps.next(f"writing {output}")
        equi_file.write(output, document, tensors)
    return document


def _provenance(checkpoint, modality, licence, citation):
    """All strings; file names without their folders, which mean nothing on another machine."""
    given = Path(checkpoint.source)
    entries = {
        "source": given.name if given.is_file() else f"{checkpoint.source} ({checkpoint.path.name})",
        "sha256": checkpoint.sha256,
        "framework_version": checkpoint.version,
        "licence": licence or checkpoint.licence,
        "date": datetime.date.today().isoformat(),
        "citation": citation or checkpoint.citation,
        "converter": f"equi-tools {__version__}",
    }
    if modality is not None:
        entries["modality"] = modality
    return entries
