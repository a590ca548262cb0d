"""Documents about a talk: texts and PDF files."""

from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

from zoo.base.disk.files import check_regular
from zoo.base.errors import ZooError
from zoo.formats.text import read_text

DOCUMENTS = (".txt", ".pdf")  # suffixes
LARGEST = 100_000_000  # bytes of a PDF
MAX_PAGES = 50
MOST_OPERATORS = 3_000_000  # of all pages, each of which draws a text or a line: half a minute


def read_document(path: Path) -> str:
    """Return the text of a document.

    Args:
        path: PDF file, of which the first 50 pages are read, or text file in UTF-8.

    Raises:
        ZooError: The file is missing or cannot be read, or has no text.
    """
    check_regular(path)
    if not path.is_file():
        raise ZooError(f"There is no file {path}.")
    text = read_pdf(path) if path.suffix.lower() == ".pdf" else read_text(path)
    if not text.strip():
        advice = "; a scanned PDF needs text recognition" if path.suffix.lower() == ".pdf" else ""
        raise ZooError(f"{path} has no text{advice}.")
    return text


def read_pdf(path: Path) -> str:
    """Return the text of a PDF; words that a line divides are joined.

    Raises ZooError for a file that is missing, too large, encrypted or damaged.
    """
    from pypdf import PdfReader  # 0.3 s, and most commands read no PDF

    try:
        if path.stat().st_size > LARGEST:
            raise ZooError(f"{path} has more than {LARGEST // 1_000_000} MB.")
        pages = PdfReader(path).pages
        count_operator = _limit()
        text = "\n".join(
            page.extract_text(visitor_operand_before=count_operator)
            for page in islice(pages, MAX_PAGES)
        )
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ZooError:
        raise
    except Exception as error:  # a damaged file raises errors of any class in the library
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ZooError(f"{path} is not read as a PDF: {reason}.") from error
    return text.replace("-\n", "")


def _limit() -> Callable[..., None]:
    """Return what raises ValueError in its call after the last operator: many pages may be one."""
    numbers = count(1)

    def count_operator(*_: object) -> None:
        if next(numbers) > MOST_OPERATORS:
            raise ValueError(f"it has more than {MOST_OPERATORS} operators")

    return count_operator
